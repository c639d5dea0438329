// What importers of pooling share.
#pragma once

#include "ops/convolution/window.h"

namespace ipu::ops {

// max_pool or avg_pool of x [N, C, one to three spatial dimensions].
ir::Value* pooled(ImportCall& call, std::string_view kind, ir::Value* x, const Attributes& attributes);

// What ceil_mode adds behind: a last window may reach over the end, if it starts inside the input of spatial
// sizes `sizes` or the padding before it. One entry per dimension.
std::vector<int64_t> ceil_padding_of(const Window& window, std::span<const int64_t> sizes);

}  // namespace ipu::ops
