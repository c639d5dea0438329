// What follows from constants alone: shapes that a model computes from shapes.
#pragma once

#include <vector>

#include "frontends/records/value_table.h"

namespace ipu::frontends::records {

// The ops after `last` (nullptr: all) read constants and what `given` says only. Results of up to 1024 elements get the constant they
// are, beside their value; nothing in the graph changes. Operators of random numbers and those without a
// reference value stay unknown.
using GivenValues = std::vector<std::pair<const ir::Value*, ConstantPtr>>;
void fold_results(const ir::Graph& graph, const ir::Op* last, const GivenValues& given,
                  std::vector<Known>& results);

// Ops whose results nobody reads, from last to first: shapes that became attributes. `kept` counts as
// read.
void erase_unused(ir::Graph& graph, const ir::Value* kept);

}  // namespace ipu::frontends::records
