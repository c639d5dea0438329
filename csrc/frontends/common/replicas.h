// What data-parallel replicas add to a training step: gradients are summed within the group of replicas that
// hold the same value of a parameter.
#pragma once

#include "ir/builder.h"

namespace ipu::frontends {

// How many of `replicas` replicas hold the same value of the variable.
int64_t replicas_in_group(const ir::Variable& variable, int replicas);

// The sum of `value` over the group, in replica order; half precision is summed in f32 and stays so. The
// value itself when a group is one replica.
ir::Value* sum_over_group(ir::Builder& builder, ir::Value* value, const ir::Variable& variable, int replicas);

// A part of `value` so that sum_over_group gives it back: what a group holds in common and a sum over it will
// meet.
ir::Value* share_in_group(ir::Builder& builder, ir::Value* value, const ir::Variable& variable, int replicas);

}  // namespace ipu::frontends
