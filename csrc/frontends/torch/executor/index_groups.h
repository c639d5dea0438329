// Scatters and gathers as PopTorch runs them: which are one operation, and whose expanded index is not made.
// For lists and logs alone; what this compiler does with them is the pass index-slices.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

struct IndexGroups {
  // The ops of a graph, each after what it reads; several in one entry are one operation.
  std::vector<std::vector<const ir::Op*>> entries;
  // Results of exact duplicates, which are in no entry → those of the op that stands for them.
  std::unordered_map<const ir::Value*, const ir::Value*> same_as;
};
// Ops of equal key of which none feeds another are one. Linear in the graph for each key that several ops have.
IndexGroups group_indexing(const ir::Graph& graph);

// Whether an op is an entry of an `IndexGroups` that others may join: "" if not, else what they must agree in.
std::string group_key(const ir::Op& op);

// torch's expand ops that only spread an index which a scatter or gather can read as it is.
std::unordered_set<const ir::Op*> unneeded_expansions(const ir::Graph& graph);

}  // namespace ipu::frontends::torch_frontend
