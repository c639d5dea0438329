#include "ops/folding/fold_node.h"

#include <map>
#include <numeric>

namespace ipu::ops {

bool fold_node(NodeImportCall& call, std::string_view type) {
  return fold_pointwise(call, type) || fold_reduction(call, type) || fold_cast(call, type) ||
         fold_creation(call, type);
}

std::vector<int> moved_operands(std::string_view type, int operand_count) {
  static const std::map<std::string_view, std::vector<int>> table{
      {"Identity", {0}},    {"Reshape", {0}},      {"Flatten", {0}},
      {"Squeeze", {0}},     {"Unsqueeze", {0}},    {"Transpose", {0}},
      {"Split", {0}},       {"Expand", {0}},       {"Tile", {0}},
      {"Slice", {0}},       {"Gather", {0}},       {"GatherElements", {0}},
      {"GatherND", {0}},    {"DepthToSpace", {0}}, {"SpaceToDepth", {0}},
      {"Where", {1, 2}},    {"Scatter", {0, 2}},   {"ScatterElements", {0, 2}},
      {"ScatterND", {0, 2}}};
  if (type == "Concat") {
    std::vector<int> all(static_cast<size_t>(operand_count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const auto at = table.find(type);
  return at == table.end() ? std::vector<int>{} : at->second;
}

}  // namespace ipu::ops
