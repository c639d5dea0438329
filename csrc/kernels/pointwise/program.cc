// Text and attribute form of pointwise programs, and the check that a program is well formed: known opcodes,
// operands of each instruction made by earlier ones, outputs in range.
#include "kernels/pointwise/program.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>

#include "support/error.h"

namespace ipu::kernels {
namespace {

struct Row {
  OpCode code;
  std::string_view name;
  int arity;
};

constexpr std::array kRows{
    Row{OpCode::kLoad, "load", 0},
    Row{OpCode::kConstF, "const.f", 0},
    Row{OpCode::kConstI, "const.i", 0},
    Row{OpCode::kIota, "iota", 0},
    Row{OpCode::kAddF, "add.f", 2},
    Row{OpCode::kSubF, "sub.f", 2},
    Row{OpCode::kMulF, "mul.f", 2},
    Row{OpCode::kDivF, "div.f", 2},
    Row{OpCode::kMinF, "min.f", 2},
    Row{OpCode::kMaxF, "max.f", 2},
    Row{OpCode::kPowF, "pow.f", 2},
    Row{OpCode::kFmodF, "fmod.f", 2},
    Row{OpCode::kRemainderF, "remainder.f", 2},
    Row{OpCode::kAtan2F, "atan2.f", 2},
    Row{OpCode::kNegF, "neg.f", 1},
    Row{OpCode::kAbsF, "abs.f", 1},
    Row{OpCode::kSignF, "sign.f", 1},
    Row{OpCode::kSqrtF, "sqrt.f", 1},
    Row{OpCode::kRsqrtF, "rsqrt.f", 1},
    Row{OpCode::kReciprocalF, "reciprocal.f", 1},
    Row{OpCode::kExpF, "exp.f", 1},
    Row{OpCode::kExpm1F, "expm1.f", 1},
    Row{OpCode::kLogF, "log.f", 1},
    Row{OpCode::kLog1pF, "log1p.f", 1},
    Row{OpCode::kLog2F, "log2.f", 1},
    Row{OpCode::kLog10F, "log10.f", 1},
    Row{OpCode::kSinF, "sin.f", 1},
    Row{OpCode::kCosF, "cos.f", 1},
    Row{OpCode::kTanF, "tan.f", 1},
    Row{OpCode::kAsinF, "asin.f", 1},
    Row{OpCode::kAcosF, "acos.f", 1},
    Row{OpCode::kAtanF, "atan.f", 1},
    Row{OpCode::kSinhF, "sinh.f", 1},
    Row{OpCode::kCoshF, "cosh.f", 1},
    Row{OpCode::kTanhF, "tanh.f", 1},
    Row{OpCode::kAsinhF, "asinh.f", 1},
    Row{OpCode::kAcoshF, "acosh.f", 1},
    Row{OpCode::kAtanhF, "atanh.f", 1},
    Row{OpCode::kErfF, "erf.f", 1},
    Row{OpCode::kErfcF, "erfc.f", 1},
    Row{OpCode::kSigmoidF, "sigmoid.f", 1},
    Row{OpCode::kFloorF, "floor.f", 1},
    Row{OpCode::kCeilF, "ceil.f", 1},
    Row{OpCode::kRoundF, "round.f", 1},
    Row{OpCode::kTruncF, "trunc.f", 1},
    Row{OpCode::kIsNanF, "is_nan.f", 1},
    Row{OpCode::kFmaF, "fma.f", 3},
    Row{OpCode::kEqF, "eq.f", 2},
    Row{OpCode::kNeF, "ne.f", 2},
    Row{OpCode::kLtF, "lt.f", 2},
    Row{OpCode::kLeF, "le.f", 2},
    Row{OpCode::kGtF, "gt.f", 2},
    Row{OpCode::kGeF, "ge.f", 2},
    Row{OpCode::kAddI, "add.i", 2},
    Row{OpCode::kSubI, "sub.i", 2},
    Row{OpCode::kMulI, "mul.i", 2},
    Row{OpCode::kDivI, "div.i", 2},
    Row{OpCode::kFloorDivI, "floor_div.i", 2},
    Row{OpCode::kRemainderI, "remainder.i", 2},
    Row{OpCode::kFmodI, "fmod.i", 2},
    Row{OpCode::kMinI, "min.i", 2},
    Row{OpCode::kMaxI, "max.i", 2},
    Row{OpCode::kNegI, "neg.i", 1},
    Row{OpCode::kAbsI, "abs.i", 1},
    Row{OpCode::kSignI, "sign.i", 1},
    Row{OpCode::kPowI, "pow.i", 2},
    Row{OpCode::kEqI, "eq.i", 2},
    Row{OpCode::kNeI, "ne.i", 2},
    Row{OpCode::kLtI, "lt.i", 2},
    Row{OpCode::kLeI, "le.i", 2},
    Row{OpCode::kGtI, "gt.i", 2},
    Row{OpCode::kGeI, "ge.i", 2},
    Row{OpCode::kLtU, "lt.u", 2},
    Row{OpCode::kLeU, "le.u", 2},
    Row{OpCode::kGtU, "gt.u", 2},
    Row{OpCode::kGeU, "ge.u", 2},
    Row{OpCode::kDivU, "div.u", 2},
    Row{OpCode::kRemainderU, "remainder.u", 2},
    Row{OpCode::kMinU, "min.u", 2},
    Row{OpCode::kMaxU, "max.u", 2},
    Row{OpCode::kAndI, "and.i", 2},
    Row{OpCode::kOrI, "or.i", 2},
    Row{OpCode::kXorI, "xor.i", 2},
    Row{OpCode::kNotI, "not.i", 1},
    Row{OpCode::kShlI, "shl.i", 2},
    Row{OpCode::kShrI, "shr.i", 2},
    Row{OpCode::kShrU, "shr.u", 2},
    Row{OpCode::kAndB, "and.b", 2},
    Row{OpCode::kOrB, "or.b", 2},
    Row{OpCode::kXorB, "xor.b", 2},
    Row{OpCode::kNotB, "not.b", 1},
    Row{OpCode::kSelect, "select", 3},
    Row{OpCode::kI32ToF, "i32_to_f", 1},
    Row{OpCode::kU32ToF, "u32_to_f", 1},
    Row{OpCode::kFToI32, "f_to_i32", 1},
    Row{OpCode::kFToU32, "f_to_u32", 1},
    Row{OpCode::kBoolToF, "bool_to_f", 1},
    Row{OpCode::kBoolToI, "bool_to_i", 1},
    Row{OpCode::kFToBool, "f_to_bool", 1},
    Row{OpCode::kIToBool, "i_to_bool", 1},
    Row{OpCode::kRoundF16, "round_f16", 1},
    Row{OpCode::kNarrowI16, "narrow_i16", 1},
    Row{OpCode::kNarrowU16, "narrow_u16", 1},
    Row{OpCode::kNarrowI8, "narrow_i8", 1},
    Row{OpCode::kNarrowU8, "narrow_u8", 1},
    Row{OpCode::kGeluF, "gelu.f", 1},
    Row{OpCode::kGeluSlopeF, "gelu_slope.f", 1},
    Row{OpCode::kLgammaF, "lgamma.f", 1},
    Row{OpCode::kDigammaF, "digamma.f", 1},
    Row{OpCode::kPolygammaF, "polygamma.f", 2},
};
static_assert(kRows.size() == kOpCodeCount);
static_assert(
    [] {
      for (size_t i = 0; i < kRows.size(); ++i)
        if (kRows[i].code != static_cast<OpCode>(i)) return false;
      return true;
    }(),
    "kRows is in the order of OpCode");

[[noreturn]] void malformed(const std::string& what) {
  throw Error(ErrorCode::kInvalidProgram, "invalid pointwise program: " + what);
}

std::string operand_text(int32_t reg) { return fmt::format("%{}", reg); }

}  // namespace

std::string_view to_string(OpCode code) {
  return static_cast<size_t>(code) < kRows.size() ? kRows[static_cast<size_t>(code)].name : "?";
}

int arity(OpCode code) { return kRows[static_cast<size_t>(code)].arity; }

void check(const PointwiseProgram& program) {
  for (size_t count : {program.code.size(), program.outputs.size()})
    if (count > kMostInstructions)
      malformed(fmt::format("it has {} instructions or outputs; {} are the most.", count, kMostInstructions));
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    std::string where = fmt::format("instruction {}", i);
    if (static_cast<size_t>(step.code) >= kRows.size()) malformed(where + " has an unknown opcode.");
    where += fmt::format(" ({})", to_string(step.code));
    const int32_t sources[3] = {step.a, step.b, step.c};
    for (int k = 0; k < arity(step.code); ++k)
      if (sources[k] < 0 || sources[k] >= static_cast<int32_t>(i))
        malformed(fmt::format("{} reads register {}, which is not made before it.", where, sources[k]));
    bool indexed = step.code == OpCode::kLoad || step.code == OpCode::kIota;
    if (indexed && step.immediate < 0) malformed(where + " has a negative index.");
  }
  if (program.outputs.empty()) malformed("it has no outputs.");
  for (int32_t output : program.outputs)
    if (output < 0 || output >= static_cast<int32_t>(program.code.size()))
      malformed(fmt::format("output register {} does not exist.", output));
}

Attributes PointwiseProgram::to_attributes() const {
  std::vector<int64_t> words;
  std::vector<double> values;
  words.reserve(code.size() * 5);
  values.reserve(code.size());
  for (const Instruction& step : code) {
    for (int32_t word : {static_cast<int32_t>(step.code), step.a, step.b, step.c, step.immediate})
      words.push_back(word);
    values.push_back(step.value);
  }
  Attributes attributes;
  attributes.set("code", std::move(words));
  attributes.set("values", std::move(values));
  attributes.set("outputs", std::vector<int64_t>(outputs.begin(), outputs.end()));
  return attributes;
}

PointwiseProgram PointwiseProgram::from_attributes(const Attributes& attributes) {
  for (const char* name : {"code", "values", "outputs"})
    if (!attributes.has(name)) malformed(fmt::format("attribute '{}' is missing.", name));
  const auto* words = std::get_if<std::vector<int64_t>>(attributes.find("code"));
  const auto* values = std::get_if<std::vector<double>>(attributes.find("values"));
  const auto* outputs = std::get_if<std::vector<int64_t>>(attributes.find("outputs"));
  if (words == nullptr || values == nullptr || outputs == nullptr)
    malformed("'code' and 'outputs' must be lists of integers, 'values' a list of real numbers.");
  if (words->size() % 5 != 0 || words->size() / 5 != values->size())
    malformed(fmt::format(
        "'code' has {} words and 'values' {} numbers; five words and one number make an instruction.",
        words->size(), values->size()));
  PointwiseProgram program;
  program.code.reserve(values->size());
  for (size_t i = 0; i < values->size(); ++i) {
    const int64_t* word = words->data() + 5 * i;
    if (word[0] < 0 || word[0] >= static_cast<int64_t>(kRows.size()))
      malformed(fmt::format("instruction {} has unknown opcode {}.", i, word[0]));
    auto narrow = [&](int64_t value) {
      if (value < INT32_MIN || value > INT32_MAX)
        malformed(fmt::format("instruction {} has a word out of range.", i));
      return static_cast<int32_t>(value);
    };
    program.code.push_back({static_cast<OpCode>(word[0]), narrow(word[1]), narrow(word[2]), narrow(word[3]),
                            narrow(word[4]), (*values)[i]});
  }
  for (int64_t output : *outputs) {
    if (output < 0 || output >= static_cast<int64_t>(program.code.size()))
      malformed(fmt::format("output register {} does not exist.", output));
    program.outputs.push_back(static_cast<int32_t>(output));
  }
  check(program);
  return program;
}

std::string to_string(const PointwiseProgram& program) {
  std::string text;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    text += fmt::format("{} = {}", operand_text(static_cast<int32_t>(i)), to_string(step.code));
    if (step.code == OpCode::kLoad || step.code == OpCode::kIota) text += fmt::format(" {}", step.immediate);
    if (step.code == OpCode::kConstF || step.code == OpCode::kConstI)
      text += fmt::format(" {:f}", step.value);
    const int32_t sources[3] = {step.a, step.b, step.c};
    for (int k = 0; k < arity(step.code); ++k) text += (k ? ", " : " ") + operand_text(sources[k]);
    text += "\n";
  }
  text += "return";
  for (size_t i = 0; i < program.outputs.size(); ++i)
    text += (i ? ", " : " ") + operand_text(program.outputs[i]);
  return text + "\n";
}

}  // namespace ipu::kernels
