// What follows from constants alone: shapes that a model computes from shapes.
#pragma once

#include <unordered_map>
#include <vector>

#include "frontends/records/record_call.h"
#include "ops/definition/importers.h"

namespace ipu::frontends::records {

// The results of a node whose operands are all constants, in the types of the model; empty: it does not follow here.
// Nothing is narrowed and no op is made, but errors of the node are raised.
std::vector<ConstantPtr> fold_node(const NodeRecord& node, int version, const ops::NodeImporter* import,
                                   ValueTable& values, const ModelState& state);

// The ops after `last` (nullptr: all) read constants and what `given` says only. Results of up to `most` elements
// get the constant they are, beside their value; nothing in the graph changes. Operators of random numbers and
// those without a reference value stay unknown.
using GivenValues = std::vector<std::pair<const ir::Value*, ConstantPtr>>;
inline constexpr int64_t kMostElements = 1024;
void fold_results(const ir::Graph& graph, const ir::Op* last, const GivenValues& given,
                  std::vector<Known>& results, int64_t most = kMostElements);

// Ops whose results nobody reads, from last to first: shapes that became attributes. `kept` counts as
// read. Returns the values that are gone, with their types.
std::unordered_map<const ir::Value*, ir::Type> erase_unused(ir::Graph& graph, const ir::Value* kept);

}  // namespace ipu::frontends::records
