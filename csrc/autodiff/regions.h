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
// every iteration, then one that goes back through them. Costs trip times the carried values in memory.
std::vector<ir::Value*> loop_gradients(ir::Op& op, const std::vector<ir::Value*>& upstream,
                                       const std::vector<bool>& needs, ir::Builder& builder,
                                       const Fetch& fetch);

}  // namespace ipu::autodiff
