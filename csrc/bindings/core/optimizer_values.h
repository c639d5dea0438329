// Optimizers of PopART, from plain Python data.
#pragma once

#include <pybind11/pybind11.h>

#include "optimizers/optimizer.h"

namespace ipu::bindings {

// Converts the dictionary that Optimizer.native of popart returns: "kind", "groups" (each with "hyper": name to
// (number, constant), "types": state to name of a type, "nesterov"), "group_of", "loss_scaling", "clip_groups" (each
// with "weights" and "max_norm"), and the modes "decay", "scaled_state", "tf_variant" where the class has them.
// Throws Error(kTypeMismatch) for data of another form, Error(kOptimizer) for unknown kinds and types.
optimizers::Spec optimizer_spec_of(const pybind11::dict& data);

}  // namespace ipu::bindings
