// Optimizers of PopART, from plain Python data.
#pragma once

#include <pybind11/pybind11.h>

#include "optimizers/optimizer.h"

namespace ipu::bindings {

// Of the dictionary that Optimizer.native of popart gives: "kind", "groups" (each with "hyper": name to (number,
// constant), "types": state to name of a type, "nesterov"), "group_of", "loss_scaling", "clip_groups" (each with
// "weights" and "max_norm"), and the modes "decay", "scaled_state", "tf_variant" where the class has them.
// Error(kTypeMismatch) for data of another form, Error(kOptimizer) for kinds and types that there are not.
optimizers::Spec optimizer_spec_of(const pybind11::dict& data);

}  // namespace ipu::bindings
