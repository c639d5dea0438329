// Gradients of ops that hold graphs: their graphs are computed again inside the gradient, from what entered them.
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

// Gradients of the operands of a loop with a static trip count: a loop that goes back through the carried values
// of every iteration. With `may_change_loop` the forward loop stashes them itself, a row at a time and in place:
// operands and results are added to it, once however often it is differentiated. Else a loop that does is put in
// front. Gradients are numbered as the operands were. Time and memory grow with trip times the carried values.
std::vector<ir::Value*> loop_gradients(ir::Op& op, const std::vector<ir::Value*>& upstream,
                                       const std::vector<bool>& needs, ir::Builder& builder,
                                       const Fetch& fetch, bool may_change_loop);

}  // namespace ipu::autodiff
