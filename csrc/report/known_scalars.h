// The scalars of a graph that follow from its constants and the number of an iteration: what the conditions of a pipeline hang on.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace ipu::report {

class KnownScalars {
 public:
  // Of a body that runs several times; other graphs have no index.
  explicit KnownScalars(const ir::Graph& graph, std::optional<int64_t> index = std::nullopt);

  std::optional<double> find(const ir::Value* value) const;
  // The conditions of its `if`s, in order; those that are not known are nullopt.
  std::vector<std::optional<bool>> conditions() const;

 private:
  const ir::Graph& graph_;
  std::unordered_map<const ir::Value*, double> values_;
};

}  // namespace ipu::report
