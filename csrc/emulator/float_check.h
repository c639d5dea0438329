// Floating-point exceptions, seen in results: a value that is invalid or overflowed although nothing like it
// went in. Costs one pass over operands and results of a step, and only when it is asked for.
#pragma once

#include <cstddef>
#include <string>

#include "program/program.h"

namespace ipu::emulator {

struct FloatsSeen {
  bool nan = false, infinite = false;
};
// What goes into a step: asked before it runs, since results may overwrite operands.
FloatsSeen floats_in(const program::Instruction& step, std::byte* const* pointers);

// "" when all is well; else what happened. Pointers: operands, then results, as the step has them.
std::string float_exception(const program::Instruction& step, const FloatsSeen& given,
                            std::byte* const* pointers);

}  // namespace ipu::emulator
