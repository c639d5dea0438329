// What an op does on the tiles of an IPU: its definition's rule, or what follows from its expression, its parts or its bytes.
#pragma once

#include <vector>

#include "ops/definition/op_def.h"
#include "target/work/work.h"

namespace ipu::ops {

struct OpWork {
  std::vector<target::Work> phases;  // one after the other
  bool is_guess = false;  // from bytes alone, of the op or of one of its parts: no definition says anything
};

// Structural ops have none: they are what a program does with IPUs, links and the host. So have views, which move nothing.
OpWork work_of(const ir::Op& op);

// The functions that the expression of an elementwise op applies to an element, those of equal subtrees once; by the names of their rows
// in kernels/pointwise/scalar_functions.h.
std::vector<std::string_view> functions_of(const ir::Op& op);
std::vector<std::string_view> functions_of(std::span<const Expr> trees);

// --- for definitions

// Over the elements of a value, as they lie on the tiles.
target::Work pass_over(const ir::Type& type, std::vector<std::string_view> functions, int64_t operands = 1);
// Over those of the first result, in the widest type of what it reads and writes as a whole. Operands of as many elements count, those of
// fewer (broadcast ones) together as one.
target::Work pass_of(const ir::Op& op, std::vector<std::string_view> functions);
target::Work reduction_of(const ir::Type& x, int64_t results, int64_t sums = 1);
// The same elements in another place or order; `contiguous` elements stay together.
target::Work rearrangement_of(const ir::Type& type, int64_t contiguous);
// `elements` of `table` at `rows` numbers, or added there.
target::Work gather_from(const ir::Type& table, int64_t rows, int64_t row_elements, bool is_update = false,
                         int64_t groups = 1);

// Rules: that pass alone; nothing, since the machine has the result for free.
WorkRule one_pass(std::vector<std::string_view> functions);
WorkRule no_work();

}  // namespace ipu::ops
