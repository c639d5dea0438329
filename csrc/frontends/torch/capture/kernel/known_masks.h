// Operators whose results have a shape that depends on values, where these are known while a model is captured.
#pragma once

#include "frontends/torch/capture/capture.h"

namespace ipu::frontends::torch_frontend {

// x[mask] and x[mask] = v: a mask with known values becomes the integer indices it stands for, whose number is
// known; other masks stay.
void settle_known_masks(Capture& c, const OpInfo& info, torch::jit::Stack* stack);

// Arguments that are values of the graph become what the host knows of them; false: not all are known, and
// nothing is changed.
bool settle_known_values(Capture& c, const OpInfo& info, torch::jit::Stack* stack);

// masked_select by a known mask becomes x[mask]; false: it is another operator, or nothing is known.
bool select_by_known_mask(Capture& c, const OpInfo& info, torch::jit::Stack* stack);

}  // namespace ipu::frontends::torch_frontend
