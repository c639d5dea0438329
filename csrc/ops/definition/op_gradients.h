// The gradients of one defined op, by its own rule or by what it decomposes into.
#pragma once

#include <string>
#include <vector>

#include "ops/definition/gradient_builder.h"

namespace ipu::ops {

// Throws Error(kNotDifferentiable) with the user's line.
[[noreturn]] void not_differentiable(const ir::Op& op, const std::string& reason);

// By operand; nullptr: none, or not among `needs`. `upstream`: the gradients of the results, nullptr where
// none arrived. New ops stand where the builder stands. Error(kNotDifferentiable) for an op without a gradient
// or with a refused one.
std::vector<ir::Value*> gradients_of_op(const ir::Op& op, const std::vector<ir::Value*>& upstream,
                                        const std::vector<bool>& needs, ir::Builder& builder,
                                        const GradientBuilder::Fetch& fetch);

}  // namespace ipu::ops
