// Floating-point exceptions. Seen in results: a value that is invalid or overflowed although nothing like it
// went in. Seen in operands: an ordered comparison with a NaN, whose result shows nothing. Costs passes over
// operands and results of a step, and only when it is asked for.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/kernel_table.h"
#include "program/program.h"

namespace ipu::emulator {

struct FloatsSeen {
  bool nan = false, infinite = false;

  void add(const FloatsSeen& other) {
    nan |= other.nan;
    infinite |= other.infinite;
  }
};
// What goes into a step: asked before it runs, since results may overwrite operands.
FloatsSeen floats_in(const program::Instruction& step, std::byte* const* pointers);

// "" when all is well; else what happened. Pointers: operands, then results, as the step has them.
std::string float_exception(const program::Instruction& step, const FloatsSeen& given,
                            std::byte* const* pointers);
// Error(kFloatingPoint) unless all is well.
void check_floats(const program::Instruction& step, const FloatsSeen& given, std::byte* const* pointers);

// Asks of the comparisons (<, <=, >, >=) in a step's elementwise code whether an operand is not a number. It
// runs the code once more, with that as the only result.
class ComparisonWatch {
 public:
  // nullptr when the step does not compare floats.
  static std::unique_ptr<ComparisonWatch> of(const program::Instruction& step);
  bool meets_nan(std::byte* const* operands) const;  // before the step runs

 private:
  std::unique_ptr<kernels::PreparedKernel> kernel_;
  int64_t result_bytes_ = 0;
};

}  // namespace ipu::emulator
