// The one place to ask what an op does besides computing its results: structural ops by ir/effects.h, defined
// ones by their definition, ops without a definition are unknown.
#pragma once

#include "ir/effects.h"
#include "ir/verify/verifier.h"
#include "ops/definition/op_def.h"

namespace ipu::ops {

ir::Effects effects(const ir::Op& op);
ir::StateEffect state_effect(const ir::Op& op);  // the same without the lists

// Changes state, or memory of another value, graphs it calls included. Unknown ops do, views do not. Linear in the graphs
// it calls; passes::Effects knows the same of all ops of a module.
bool has_side_effects(const ir::Op& op);
// Its results are a function of its operands and attributes and can be computed wherever needed; false for
// ops of unknown effects, random ones and all structural ones.
bool is_function(const ir::Op& op);

// The view rule of its kind; nullptr when its result is computed.
const ir::ViewRule* view_rule(const ir::Op& op);
// The operand whose memory result 0 lives in (`in_place`, or what its kind modifies), or -1.
int in_place_operand(const ir::Op& op);
// What is wrong with the op's `in_place`; empty when nothing is.
std::string in_place_problem(const ir::Op& op);
// The view that `view` is, of other contents of its operands: an ordinary op.
ir::Value* rebuild_view(ir::Builder& builder, const ir::Op& view, std::span<ir::Value* const> operands);

// Authored as long as something writes, shares memory, is passed by reference or ordered by edges; a module
// without all that is functional already.
bool is_authored(const ir::Op& op);
ir::Form form_of(const ir::Module& module);

}  // namespace ipu::ops
