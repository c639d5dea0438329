// A gradient op as IR: by its forward row's own rule, or what the core's autodiff makes of the row's forward IR.
#pragma once

#include "frontends/popxl/lower_call.h"

namespace ipu::popxl {

// Sets the outputs of `call`, whose op is a gradient op. IPU_CHECK: nothing is read that the row says is not consumed.
void lower_gradient(LowerCall& call);

}  // namespace ipu::popxl
