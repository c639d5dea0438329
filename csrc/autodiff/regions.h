// Gradients of ops that hold graphs. The forward op stays as it is; its graphs are computed again inside the
// gradient.
#pragma once

#include <functional>
#include <vector>

#include "ir/builder.h"

namespace ipu::autodiff {

using Fetch = std::function<ir::Value*(ir::Value*)>;  // forward value → its stand-in in the gradient graph

// Gradients of the operands (nullptr: none): an `if` on the same condition whose graphs compute their branch
// again and differentiate it.
std::vector<ir::Value*> if_gradients(ir::Op& op, const std::vector<ir::Value*>& upstream,
                                     const std::vector<bool>& needs, ir::Builder& builder,
                                     const Fetch& fetch);

// Gradients of the operands of a loop with a static trip count: a loop that stashes the carried values of
// every iteration, a row at a time and in place, then one that goes back through them. Time and memory grow with
// trip times the carried values.
std::vector<ir::Value*> loop_gradients(ir::Op& op, const std::vector<ir::Value*>& upstream,
                                       const std::vector<bool>& needs, ir::Builder& builder,
                                       const Fetch& fetch);

}  // namespace ipu::autodiff
