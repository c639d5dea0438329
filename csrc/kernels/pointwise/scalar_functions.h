// The functions that elementwise ops are made of, and the opcodes of the pointwise VM: one row each. From the rows follow OpCode with its
// texts and checks (program.h), the loops of the VM (block_ops.cc, scalar_ops.cc), Func (ops/expression/expr.h), the reference value
// (expr_evaluate.cc), VM code and its meaning, and the op that means a function (function_facts.h).
//
// A new function of reals is a row at the end of IPU_F64_FUNCTIONS. Numbers of opcodes are written into files: a new one takes the next.
// What a function takes on the tiles of an IPU is a row of target/work/function_cycles.cc.
#pragma once

// clang-format off

// Functions of reals with a loop over vectors. X(name, number of opcode k<name>F, name of the op, operands, value of the real a in f64,
// value of the vector a of tag d).
#define IPU_VECTOR_FUNCTIONS(X)                                                                                      \
  X(Sqrt,       17, "sqrt",       1, std::sqrt(a),             hn::Sqrt(a))                                          \
  X(Rsqrt,      18, "rsqrt",      1, 1.0 / std::sqrt(a),       hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a)))               \
  X(Reciprocal, 19, "reciprocal", 1, 1.0 / a,                  hn::Div(hn::Set(d, 1.0f), a))                         \
  X(Exp,        20, "exp",        1, std::exp(a),              exp(d, a))                                            \
  X(Expm1,      21, "expm1",      1, std::expm1(a),            expm1(d, a))                                          \
  X(Log,        22, "log",        1, std::log(a),              log(d, a))                                            \
  X(Log1p,      23, "log1p",      1, std::log1p(a),            log1p(d, a))                                          \
  X(Tanh,       34, "tanh",       1, std::tanh(a),             tanh(d, a))                                           \
  X(Erf,        38, "erf",        1, std::erf(a),              erf(d, a))                                            \
  X(Sigmoid,    40, "sigmoid",    1, a >= 0 ? 1.0 / (1.0 + std::exp(-a)) : std::exp(a) / (1.0 + std::exp(a)), sigmoid(d, a)) \
  X(Gelu,      105, "gelu",       1, gelu(a),                  gelu(d, a))                                           \
  X(GeluSlope, 106, "gelu_slope", 1, gelu_slope(a),            gelu_slope(d, a))

// Those whose loop computes the value in f64 and rounds it once: 0.5 ulp, the same on every instruction set. X(name, number, name of the op,
// operands, value of the reals a and b).
#define IPU_F64_FUNCTIONS(X)                                          \
  X(Atan2,      13, "atan2",      2, std::atan2(a, b))                \
  X(Log2,       24, "log2",       1, std::log2(a))                    \
  X(Log10,      25, "log10",      1, std::log10(a))                   \
  X(Sin,        26, "sin",        1, std::sin(a))                     \
  X(Cos,        27, "cos",        1, std::cos(a))                     \
  X(Tan,        28, "tan",        1, std::tan(a))                     \
  X(Asin,       29, "asin",       1, std::asin(a))                    \
  X(Acos,       30, "acos",       1, std::acos(a))                    \
  X(Atan,       31, "atan",       1, std::atan(a))                    \
  X(Sinh,       32, "sinh",       1, std::sinh(a))                    \
  X(Cosh,       33, "cosh",       1, std::cosh(a))                    \
  X(Asinh,      35, "asinh",      1, std::asinh(a))                   \
  X(Acosh,      36, "acosh",      1, std::acosh(a))                   \
  X(Atanh,      37, "atanh",      1, std::atanh(a))                   \
  X(Erfc,       39, "erfc",       1, std::erfc(a))                    \
  X(Lgamma,    107, "lgamma",     1, kernels::log_gamma(a))           \
  X(Digamma,   108, "digamma",    1, kernels::digamma(a))             \
  X(Polygamma, 109, "polygamma",  2, kernels::polygamma(a, b))

#define IPU_REAL_FUNCTIONS(X) IPU_VECTOR_FUNCTIONS(X) IPU_F64_FUNCTIONS(X)

// Functions of several types of registers. X(name, op or "", opcodes on f32, i32, u32 and booleans, value of the reals a and b, value of
// the integers a and b; ua and ub are their bits). Same: the register stays as it is.
#define IPU_TYPED_FUNCTIONS(X)                                                                                                                    \
  X(Add,       "add",         AddF,       AddI,       AddI,       AddI,       a + b,                        static_cast<int64_t>(ua + ub))        \
  X(Sub,       "sub",         SubF,       SubI,       SubI,       SubI,       a - b,                        static_cast<int64_t>(ua - ub))        \
  X(Mul,       "mul",         MulF,       MulI,       MulI,       MulI,       a * b,                        static_cast<int64_t>(ua * ub))        \
  X(Div,       "div",         DivF,       DivI,       DivU,       DivI,       a / b,                        integer_quotient(a, b))               \
  X(FloorDiv,  "",            Same,       FloorDivI,  DivU,       FloorDivI,  floor_quotient(a, b),         floor_quotient(a, b))                 \
  X(Remainder, "",            RemainderF, RemainderI, RemainderU, RemainderI, floor_modulo(a, b),           floor_modulo(a, b))                   \
  X(Fmod,      "",            FmodF,      FmodI,      RemainderU, FmodI,      std::fmod(a, b),              b == 0 || b == -1 ? 0 : a % b)        \
  X(Min,       "minimum",     MinF,       MinI,       MinU,       MinI,       pick_nan(a, b, std::min(a, b)), std::min(a, b))                     \
  X(Max,       "maximum",     MaxF,       MaxI,       MaxU,       MaxI,       pick_nan(a, b, std::max(a, b)), std::max(a, b))                     \
  X(Pow,       "pow",         PowF,       PowI,       PowI,       PowI,       std::pow(a, b),               integer_power(a, b))                  \
  X(Neg,       "neg",         NegF,       NegI,       NegI,       NegI,       -a,                           static_cast<int64_t>(-ua))            \
  X(Abs,       "abs",         AbsF,       AbsI,       Same,       Same,       std::fabs(a),                 a < 0 ? static_cast<int64_t>(-ua) : a) \
  X(Sign,      "sign",        SignF,      SignI,      SignI,      Same,       std::isnan(a) ? 0.0 : (a > 0) - (a < 0), (a > 0) - (a < 0))         \
  X(Floor,     "",            FloorF,     Same,       Same,       Same,       std::floor(a),                a)                                    \
  X(Ceil,      "",            CeilF,      Same,       Same,       Same,       std::ceil(a),                 a)                                    \
  X(Round,     "",            RoundF,     Same,       Same,       Same,       std::nearbyint(a), /* ties to even, as torch */ a)                  \
  X(Trunc,     "",            TruncF,     Same,       Same,       Same,       std::trunc(a),                a)                                    \
  X(And,       "logical_and", AndI,       AndI,       AndI,       AndB,       refuse_real(func),            a & b)                                \
  X(Or,        "logical_or",  OrI,        OrI,        OrI,        OrB,        refuse_real(func),            a | b)                                \
  X(Xor,       "logical_xor", XorI,       XorI,       XorI,       XorB,       refuse_real(func),            a ^ b)                                \
  X(Not,       "logical_not", NotI,       NotI,       NotI,       NotB,       refuse_real(func),            ~a) /* logical on booleans */         \
  X(Shl,       "",            ShlI,       ShlI,       ShlI,       ShlI,       refuse_real(func),            b < 0 || b > 63 ? 0 : static_cast<int64_t>(ua << b)) \
  X(Shr,       "",            ShrI,       ShrI,       ShrU,       ShrI,       refuse_real(func),            a >> std::clamp<int64_t>(b, 0, 63))

// Functions whose value is a boolean. X(name, op, opcodes as above, value of a and b).
#define IPU_PREDICATES(X)                                               \
  X(Eq,    "equal",         EqF,    EqI,  EqI,  EqI,  a == b)           \
  X(Ne,    "not_equal",     NeF,    NeI,  NeI,  NeI,  a != b)           \
  X(Lt,    "less",          LtF,    LtI,  LtU,  LtI,  a < b)            \
  X(Le,    "less_equal",    LeF,    LeI,  LeU,  LeI,  a <= b)           \
  X(Gt,    "greater",       GtF,    GtI,  GtU,  GtI,  a > b)            \
  X(Ge,    "greater_equal", GeF,    GeI,  GeU,  GeI,  a >= b)           \
  X(IsNan, "is_nan",        IsNanF, Same, Same, Same, std::isnan(a))

// Opcodes of conversions. X(name, number, text, element type of the result).
#define IPU_CONVERSIONS(X)                    \
  X(I32ToF,    92, "i32_to_f",   kF32)        \
  X(U32ToF,    93, "u32_to_f",   kF32)        \
  X(FToI32,    94, "f_to_i32",   kI32) /* truncates, saturates; NaN gives 0 */ \
  X(FToU32,    95, "f_to_u32",   kU32) /* likewise */ \
  X(BoolToF,   96, "bool_to_f",  kF32)        \
  X(BoolToI,   97, "bool_to_i",  kI32)        \
  X(FToBool,   98, "f_to_bool",  kBool)       \
  X(IToBool,   99, "i_to_bool",  kBool)       \
  X(RoundF16, 100, "round_f16",  kF16) /* to the nearest f16 and back */ \
  X(NarrowI16,101, "narrow_i16", kI16) /* these wrap to the width and extend back */ \
  X(NarrowU16,102, "narrow_u16", kU16)        \
  X(NarrowI8, 103, "narrow_i8",  kI8)         \
  X(NarrowU8, 104, "narrow_u8",  kU8)

// The other opcodes. X(name, number, text, registers read). Suffix: F on f32 registers, I on i32, U on u32, B on booleans; what has none works
// on raw bits. Integers wrap on overflow; division by zero gives 0; DivI truncates, FloorDivI floors; a shift by less than 0 or more than
// 31 moves every bit out; PowI by a negative exponent is 0 unless the base is 1 or -1.
#define IPU_OPCODES(X)                  \
  X(Load,         0, "load",        0) /* operand `immediate`, widened to a register by its dtype */ \
  X(ConstF,       1, "const.f",     0)   \
  X(ConstI,       2, "const.i",     0) /* `value` */ \
  X(Iota,         3, "iota",        0) /* i32: index of the element along dimension `immediate` of the result */ \
  X(AddF,         4, "add.f",       2)   \
  X(SubF,         5, "sub.f",       2)   \
  X(MulF,         6, "mul.f",       2)   \
  X(DivF,         7, "div.f",       2)   \
  X(MinF,         8, "min.f",       2)   \
  X(MaxF,         9, "max.f",       2)   \
  X(PowF,        10, "pow.f",       2)   \
  X(FmodF,       11, "fmod.f",      2)   \
  X(RemainderF,  12, "remainder.f", 2)   \
  X(NegF,        14, "neg.f",       1)   \
  X(AbsF,        15, "abs.f",       1)   \
  X(SignF,       16, "sign.f",      1)   \
  X(FloorF,      41, "floor.f",     1)   \
  X(CeilF,       42, "ceil.f",      1)   \
  X(RoundF,      43, "round.f",     1)   \
  X(TruncF,      44, "trunc.f",     1)   \
  X(IsNanF,      45, "is_nan.f",    1)   \
  X(FmaF,        46, "fma.f",       3) /* a*b + c, one rounding */ \
  X(EqF,         47, "eq.f",        2)   \
  X(NeF,         48, "ne.f",        2)   \
  X(LtF,         49, "lt.f",        2)   \
  X(LeF,         50, "le.f",        2)   \
  X(GtF,         51, "gt.f",        2)   \
  X(GeF,         52, "ge.f",        2)   \
  X(AddI,        53, "add.i",       2)   \
  X(SubI,        54, "sub.i",       2)   \
  X(MulI,        55, "mul.i",       2)   \
  X(DivI,        56, "div.i",       2)   \
  X(FloorDivI,   57, "floor_div.i", 2)   \
  X(RemainderI,  58, "remainder.i", 2)   \
  X(FmodI,       59, "fmod.i",      2)   \
  X(MinI,        60, "min.i",       2)   \
  X(MaxI,        61, "max.i",       2)   \
  X(NegI,        62, "neg.i",       1)   \
  X(AbsI,        63, "abs.i",       1)   \
  X(SignI,       64, "sign.i",      1)   \
  X(PowI,        65, "pow.i",       2)   \
  X(EqI,         66, "eq.i",        2)   \
  X(NeI,         67, "ne.i",        2)   \
  X(LtI,         68, "lt.i",        2)   \
  X(LeI,         69, "le.i",        2)   \
  X(GtI,         70, "gt.i",        2)   \
  X(GeI,         71, "ge.i",        2)   \
  X(LtU,         72, "lt.u",        2)   \
  X(LeU,         73, "le.u",        2)   \
  X(GtU,         74, "gt.u",        2)   \
  X(GeU,         75, "ge.u",        2)   \
  X(DivU,        76, "div.u",       2)   \
  X(RemainderU,  77, "remainder.u", 2)   \
  X(MinU,        78, "min.u",       2)   \
  X(MaxU,        79, "max.u",       2)   \
  X(AndI,        80, "and.i",       2)   \
  X(OrI,         81, "or.i",        2)   \
  X(XorI,        82, "xor.i",       2)   \
  X(NotI,        83, "not.i",       1)   \
  X(ShlI,        84, "shl.i",       2)   \
  X(ShrI,        85, "shr.i",       2)   \
  X(ShrU,        86, "shr.u",       2)   \
  X(AndB,        87, "and.b",       2)   \
  X(OrB,         88, "or.b",        2)   \
  X(XorB,        89, "xor.b",       2)   \
  X(NotB,        90, "not.b",       1)   \
  X(Select,      91, "select",      3) /* a ? b : c */
// clang-format on
