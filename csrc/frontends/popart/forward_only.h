// What PopART refuses to differentiate, whether anybody wants the gradient or not.
#pragma once

#include "ir/module.h"

namespace ipu::frontends::popart {

// The backward pass is made for every op on a path to the loss. Error(kNotDifferentiable) where one of them has none; what
// lies behind a detach is not on a path.
void check_backward_pass(const ir::Value* loss);

}  // namespace ipu::frontends::popart
