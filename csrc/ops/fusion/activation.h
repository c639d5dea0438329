// The activation at the end of a fused op: what its attribute `activation` names.
#pragma once

#include <string>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"
#include "ops/expression/expr.h"

namespace ipu::ops {

// none, relu or gelu of x; an empty expression for another name.
Expr activated(const std::string& activation, const Expr& x);

// Whether the attribute can say what `op` computes, by the name of its kind.
bool is_activation(const ir::Op& op);

// The passes of the activation and of an addend (or nullptr).
void add_activation_work(const ir::Op& op, const ir::Value* addend, std::vector<target::Work>* work);

// Throws when the attribute names none of them.
void require_activation(const InferContext& c);

}  // namespace ipu::ops
