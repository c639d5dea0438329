#include "emulator/float_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulator/host_memory.h"
#include "kernels/pointwise/program.h"
#include "support/error.h"
#include "support/half.h"

namespace ipu::emulator {
namespace {

using Seen = FloatsSeen;

template <typename T>
Seen classify(T bits, T exponent, T fraction) {
  if ((bits & exponent) != exponent) return {};
  return {(bits & fraction) != 0, (bits & fraction) == 0};
}

template <typename T>
void scan(const std::byte* data, const Shape& shape, const Strides& strides, size_t dim, T exponent,
          T fraction, Seen& seen) {
  if (dim == shape.size()) {
    T bits;
    std::memcpy(&bits, data, sizeof bits);
    const Seen one = classify(bits, exponent, fraction);
    seen.nan |= one.nan;
    seen.infinite |= one.infinite;
    return;
  }
  for (int64_t i = 0; i < shape[dim]; ++i)
    scan(data + i * strides[dim] * static_cast<int64_t>(sizeof(T)), shape, strides, dim + 1, exponent,
         fraction, seen);
}

// Layouts pad with zeros, so their stored elements are looked at as they lie.
Seen look(const TensorSpec& spec, const std::byte* data) {
  Seen seen;
  if (data == nullptr || (spec.dtype != DType::kF32 && spec.dtype != DType::kF16)) return seen;
  Shape shape = spec.shape;
  Strides strides = spec.strides;
  if (!spec.layout.is_plain() || spec.is_contiguous()) {
    shape = {spec.stored_bytes() / size_in_bytes(spec.dtype)};
    strides = {1};
  }
  if (spec.dtype == DType::kF32) {
    scan<uint32_t>(data, shape, strides, 0, 0x7f800000u, 0x007fffffu, seen);
  } else {
    scan<uint16_t>(data, shape, strides, 0, 0x7c00, 0x03ff, seen);
  }
  return seen;
}

using kernels::OpCode;
using kernels::PointwiseProgram;

bool orders_floats(OpCode code) {
  return code == OpCode::kLtF || code == OpCode::kLeF || code == OpCode::kGtF || code == OpCode::kGeF;
}

// The instructions `output` needs, in order, with the output last.
PointwiseProgram needed_for(const PointwiseProgram& program, int32_t output) {
  std::vector<bool> needed(program.code.size());
  needed[output] = true;
  for (size_t i = program.code.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int32_t from : {program.code[i].a, program.code[i].b, program.code[i].c})
      if (from >= 0) needed[from] = true;
  }
  PointwiseProgram result;
  std::vector<int32_t> number(program.code.size(), -1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    if (!needed[i]) continue;
    kernels::Instruction instruction = program.code[i];
    for (int32_t* from : {&instruction.a, &instruction.b, &instruction.c})
      if (*from >= 0) *from = number[*from];
    number[i] = static_cast<int32_t>(result.code.size());
    result.code.push_back(instruction);
  }
  result.outputs = {number[output]};
  return result;
}

}  // namespace

std::unique_ptr<ComparisonWatch> ComparisonWatch::of(const program::Instruction& step) {
  if (step.kernel != "pointwise") return nullptr;
  PointwiseProgram program = PointwiseProgram::from_attributes(step.attributes);
  int32_t any = -1;
  auto emit = [&](OpCode code, int32_t a, int32_t b) {
    program.code.push_back({code, a, b});
    return static_cast<int32_t>(program.code.size()) - 1;
  };
  for (size_t i = 0, end = program.code.size(); i < end; ++i) {
    const kernels::Instruction instruction = program.code[i];
    if (!orders_floats(instruction.code)) continue;
    for (const int32_t operand : {instruction.a, instruction.b}) {
      if (program.code[operand].code == OpCode::kConstF) continue;
      const int32_t is_nan = emit(OpCode::kIsNanF, operand, -1);
      any = any < 0 ? is_nan : emit(OpCode::kOrB, any, is_nan);
    }
  }
  if (any < 0) return nullptr;
  std::vector<TensorSpec> operands;
  for (const program::Operand& operand : step.operands) operands.push_back(operand.spec);
  TensorSpec result = step.results.at(0).spec;
  result.dtype = DType::kBool;
  if (result.layout.is_plain()) result.strides = contiguous_strides(result.shape);
  const Attributes attributes = needed_for(program, any).to_attributes();
  auto watch = std::make_unique<ComparisonWatch>();
  watch->kernel_ = kernels::find_kernel("pointwise")->prepare({operands, {&result, 1}, attributes});
  IPU_CHECK(watch->kernel_ != nullptr, "comparisons of a step cannot be watched");
  watch->result_bytes_ = result.stored_bytes();
  return watch;
}

bool ComparisonWatch::meets_nan(std::byte* const* operands) const {
  HostMemory result(result_bytes_, "watching comparisons"),
      scratch(kernel_->scratch_bytes(), "watching comparisons");
  std::byte* const results[] = {result.data()};
  for (int lane = 0; lane < kernel_->lanes(); ++lane) kernel_->run({operands, results, scratch.data()}, lane);
  return std::any_of(result.data(), result.data() + result_bytes_,
                     [](std::byte b) { return b != std::byte{0}; });
}

FloatsSeen floats_in(const program::Instruction& step, std::byte* const* pointers) {
  FloatsSeen given;
  for (size_t i = 0; i < step.operands.size(); ++i) given.add(look(step.operands[i].spec, pointers[i]));
  // Constants inside fused code are operands too: a mask of -inf is no overflow.
  for (const auto& [name, value] : step.attributes) {
    if (const auto* one = std::get_if<double>(&value)) given.add({std::isnan(*one), std::isinf(*one)});
    if (const auto* list = std::get_if<std::vector<double>>(&value))
      for (double x : *list) given.add({std::isnan(x), std::isinf(x)});
  }
  return given;
}

std::string float_exception(const program::Instruction& step, const FloatsSeen& given,
                            std::byte* const* pointers) {
  Seen seen;
  for (size_t r = 0; r < step.results.size(); ++r)
    seen.add(look(step.results[r].spec, pointers[step.operands.size() + r]));
  if (seen.nan && !given.nan) return "invalid operation: a result is not a number, and no operand was";
  if (seen.infinite && !given.infinite && !given.nan)
    return "overflow or division by zero: a result is infinite, and no operand was";
  return "";
}

void check_floats(const program::Instruction& step, const FloatsSeen& given, std::byte* const* pointers) {
  const std::string what = float_exception(step, given, pointers);
  if (!what.empty())
    throw Error(ErrorCode::kFloatingPoint, "floating-point exception: " + what, kRuntimeError);
}

}  // namespace ipu::emulator
