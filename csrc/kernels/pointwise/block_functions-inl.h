// What the hot opcodes compute: Op::apply(d, vectors...) on Highway vectors. Included once per target inside
// foreach_target, by the files with loops over blocks.
#if defined(IPU_KERNELS_BLOCK_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef IPU_KERNELS_BLOCK_FUNCTIONS_INL_H_
#undef IPU_KERNELS_BLOCK_FUNCTIONS_INL_H_
#else
#define IPU_KERNELS_BLOCK_FUNCTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/pointwise/scalar_functions.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using I = hn::ScalableTag<int32_t>;
using U = hn::ScalableTag<uint32_t>;

#define IPU_BLOCK_OP1(Name, expression)                       \
  struct Name {                                               \
    template <class D, class V>                               \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a) { \
      return expression;                                      \
    }                                                         \
  };
#define IPU_BLOCK_OP2(Name, expression)                            \
  struct Name {                                                    \
    template <class D, class V>                                    \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, V b) { \
      return expression;                                           \
    }                                                              \
  };
#define IPU_BLOCK_OP3(Name, expression)                                 \
  struct Name {                                                         \
    template <class D, class V>                                         \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, V b, V c) { \
      return expression;                                                \
    }                                                                   \
  };

// A mask as the boolean register value 0 or 1.
template <class D, class M>
HWY_INLINE auto as_boolean(D d, M mask) {
  const U u;
  return hn::IfThenElseZero(hn::RebindMask(u, mask), hn::Set(u, 1u));
}
template <class D, class V>
[[maybe_unused]] HWY_INLINE V not_a_number_first(D d, V a, V b, V otherwise) {
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), otherwise, b), a);
}

IPU_BLOCK_OP2(Add, hn::Add(a, b))
IPU_BLOCK_OP2(Sub, hn::Sub(a, b))
IPU_BLOCK_OP2(Mul, hn::Mul(a, b))
IPU_BLOCK_OP2(Div, hn::Div(a, b))
IPU_BLOCK_OP2(Min, hn::Min(a, b))
IPU_BLOCK_OP2(Max, hn::Max(a, b))
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
// x86 gives the second operand for NaN and for equal ones, so only a NaN in b needs care.
IPU_BLOCK_OP2(MinNan, hn::IfThenElse(hn::Eq(b, b), hn::Min(b, a), b))
IPU_BLOCK_OP2(MaxNan, hn::IfThenElse(hn::Eq(b, b), hn::Max(b, a), b))
#else
IPU_BLOCK_OP2(MinNan, not_a_number_first(d, a, b, hn::IfThenElse(hn::Lt(b, a), b, a)))
IPU_BLOCK_OP2(MaxNan, not_a_number_first(d, a, b, hn::IfThenElse(hn::Gt(b, a), b, a)))
#endif
IPU_BLOCK_OP1(Neg, hn::Neg(a))
IPU_BLOCK_OP1(Abs, hn::Abs(a))
IPU_BLOCK_OP1(Sign, hn::Sub(hn::IfThenElseZero(hn::Gt(a, hn::Zero(d)), hn::Set(d, 1.0f)),
                            hn::IfThenElseZero(hn::Lt(a, hn::Zero(d)), hn::Set(d, 1.0f))))
#define IPU_BLOCK_FUNCTION(name, number, text, arity, value, vector) IPU_BLOCK_OP1(name, vector)
IPU_VECTOR_FUNCTIONS(IPU_BLOCK_FUNCTION)
#undef IPU_BLOCK_FUNCTION
IPU_BLOCK_OP1(Floor, hn::Floor(a))
IPU_BLOCK_OP1(Ceil, hn::Ceil(a))
IPU_BLOCK_OP1(Round, hn::Round(a))
IPU_BLOCK_OP1(Trunc, hn::Trunc(a))
// hn::Ne is false for NaN on x86.
IPU_BLOCK_OP1(IsNan, as_boolean(d, hn::Not(hn::Eq(a, a))))
IPU_BLOCK_OP3(Fma, hn::MulAdd(a, b, c))
IPU_BLOCK_OP2(Equal, as_boolean(d, hn::Eq(a, b)))
IPU_BLOCK_OP2(NotEqual, as_boolean(d, hn::Not(hn::Eq(a, b))))
IPU_BLOCK_OP2(Less, as_boolean(d, hn::Lt(a, b)))
IPU_BLOCK_OP2(LessEqual, as_boolean(d, hn::Le(a, b)))
IPU_BLOCK_OP2(Greater, as_boolean(d, hn::Gt(a, b)))
IPU_BLOCK_OP2(GreaterEqual, as_boolean(d, hn::Ge(a, b)))
IPU_BLOCK_OP2(And, hn::And(a, b))
IPU_BLOCK_OP2(Or, hn::Or(a, b))
IPU_BLOCK_OP2(Xor, hn::Xor(a, b))
IPU_BLOCK_OP1(Not, hn::Not(a))
IPU_BLOCK_OP1(NotBoolean, hn::Xor(a, hn::Set(d, 1u)))
IPU_BLOCK_OP3(Select, hn::IfThenElse(hn::Ne(a, hn::Zero(d)), b, c))
IPU_BLOCK_OP1(ToFloat, hn::ConvertTo(F(), a))
IPU_BLOCK_OP1(BooleanToFloat,
              hn::IfThenElseZero(hn::RebindMask(F(), hn::Ne(a, hn::Zero(d))), hn::Set(F(), 1.0f)))
IPU_BLOCK_OP1(IsNonZero, as_boolean(d, hn::Not(hn::Eq(a, hn::Zero(d)))))
IPU_BLOCK_OP2(ExpDifference, exp(d, hn::Sub(a, b)))
IPU_BLOCK_OP3(SubtractTwice, hn::Sub(hn::Sub(a, b), c))
IPU_BLOCK_OP3(DifferenceTimes, hn::Mul(hn::Sub(a, b), c))
IPU_BLOCK_OP3(MinusExpTimes, hn::NegMulAdd(exp(d, b), c, a))
IPU_BLOCK_OP1(Copy, a)

#undef IPU_BLOCK_OP1
#undef IPU_BLOCK_OP2
#undef IPU_BLOCK_OP3
}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
