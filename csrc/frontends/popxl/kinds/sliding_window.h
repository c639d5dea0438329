// The windows of convolutions and pools, from attributes strides, pads (all begins, then all ends), dilations and
// padType ("not_set", "same_upper", "same_lower", "valid").
#pragma once

#include "frontends/popxl/op_kind.h"
#include "ops/convolution/window.h"

namespace ipu::popxl {

// Over input 0, [N, C, one to three spatial dimensions] of the spatial sizes `sizes`. `ceil`: not_set rounds up.
// Errors of the user are refused by the call.
ops::Window window_of(LowerCall& call, std::vector<int64_t> kernel, std::span<const int64_t> sizes,
                      bool ceil = false);
Attributes attributes_of(const ops::Window& window);
// x with zeros between its elements: dilations[d] - 1 of them along spatial dimension d. Empty: x.
ir::Value* with_zeros_between(LowerCall& call, ir::Value* x, const std::vector<int64_t>& dilations);
// Zeros before and behind; negative numbers cut off. One entry for each spatial dimension.
ir::Value* padded_or_cut(LowerCall& call, ir::Value* x, const std::vector<int64_t>& low,
                         const std::vector<int64_t>& high);
// An attribute with one entry for each spatial dimension, `fallback` where it is absent or empty.
std::vector<int64_t> entries(LowerCall& call, std::string_view name, size_t count, int64_t fallback);

}  // namespace ipu::popxl
