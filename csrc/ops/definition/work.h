// What an op does on the tiles of an IPU: its definition's rule, or what follows from its expression or its bytes.
#pragma once

#include <vector>

#include "ops/definition/op_def.h"
#include "target/work/work.h"

namespace ipu::ops {

struct OpWork {
  std::vector<target::Work> phases;  // one after the other
  bool is_guess = false;             // from bytes alone: the definition says nothing of it
};

// Structural ops have none: they are what a program does with IPUs, links and the host. So have views, which move nothing.
OpWork work_of(const ir::Op& op);

// The functions that the expression of an elementwise op applies to an element, those of equal subtrees once; by the names of their rows
// in kernels/pointwise/scalar_functions.h.
std::vector<std::string_view> functions_of(const ir::Op& op);

// A pass over the elements of `result` that reads the values of `operands` which have as many.
target::Work pass_over(const ir::Value& result, std::vector<std::string_view> functions,
                       int64_t operands = 1);

}  // namespace ipu::ops
