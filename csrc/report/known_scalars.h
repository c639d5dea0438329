// The scalars of a graph that follow from its constants and the number of an iteration, and the conditions of its `if`s as far as
// they are among them: what a pipeline hangs on.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "ops/expression/expr.h"

namespace ipu::report {

// Of each `if`, in order; one that is not known is nullopt.
using Conditions = std::vector<std::optional<bool>>;

class KnownScalars {
 public:
  // `has_index`: the graph is a body that runs several times.
  explicit KnownScalars(const ir::Graph& graph, bool has_index = false);

  bool contain(const ir::Value& value) const { return known_.contains(&value); }
  // Does a condition hang on the number of the iteration?
  bool hang_on_index() const { return hang_on_index_; }
  Conditions conditions(int64_t index = 0) const;

 private:
  // A scalar by its expression over scalars before it, by number.
  struct Step {
    ops::Expr expression = {};
    std::vector<size_t> operands = {};
    DType dtype = DType::kF32;
  };

  std::vector<double> fixed_;  // constants, behind the index; scalars of steps come after them
  std::vector<Step> steps_;
  std::vector<std::optional<size_t>> conditions_;  // numbers of scalars
  std::unordered_set<const ir::Value*> known_;
  bool hang_on_index_ = false;
};

}  // namespace ipu::report
