// Which values carry a gradient: those that depend, along floating-point paths, on a value whose gradient is
// wanted. Not here: which of them a gradient actually reaches; the reverse sweep sees that by itself.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace ipu::autodiff {

// Captured without gradients, or of a kind whose gradient is zero.
bool stops_gradients(const ir::Op& op);

class Activity {
 public:
  bool is_active(const ir::Value* value) const { return active_.contains(value); }
  const ir::Op* first_reader(const ir::Value* input) const;  // in order of the graph; nullptr when unread
  // When every way from `input` to the outputs passes integers: the op that makes the first of them; nullptr
  // when the outputs do not depend on it, or only through ops whose gradient is zero.
  const ir::Op* integer_cut(const ir::Value* input, const std::vector<ir::Value*>& outputs) const;

 private:
  friend Activity find_activity(const ir::Graph& graph, const std::vector<ir::Value*>& required,
                                bool through_integers);
  const ir::Graph* graph_ = nullptr;
  std::unordered_set<const ir::Value*> active_;
};

// `through_integers`: integers carry gradients too.
Activity find_activity(const ir::Graph& graph, const std::vector<ir::Value*>& required,
                       bool through_integers);

}  // namespace ipu::autodiff
