// What pooling shares.
#pragma once

#include "ops/convolution/window.h"
#include "ops/definition/work.h"

namespace ipu::ops {

// max_pool or avg_pool of x [N, C, one to three spatial dimensions].
ir::Value* pooled(ImportCall& call, std::string_view kind, ir::Value* x, const Attributes& attributes);
// Their gradients for x; of avg_pool attribute input_shape is its shape.
ir::Value* max_pooled_gradient(ImportCall& call, ir::Value* x, ir::Value* y, ir::Value* dy,
                               const Attributes& attributes);
ir::Value* average_pooled_gradient(ImportCall& call, ir::Value* dy, const Attributes& attributes);

// The arguments of torch's pooling operators: x [N, C, spatial...], the window over it with the padding of
// ceil_mode, and the attributes of the op.
struct Pool {
  ir::Value* x;
  Window window;
  std::vector<int64_t> ceil_padding;
  Attributes attributes;
};
Pool read_pool(AtenImportCall& call, size_t rank);

// The largest element of each window of any number, and, if the operator has a second result, its place.
void import_indexed_max_pool(AtenImportCall& call, const Pool& pool);

// A function of all elements of the windows that belong to y.
std::vector<target::Work> window_work(const ir::Op& op, const ir::Type& y, std::string_view function);

// What ceil_mode adds behind: a last window may reach over the end, if it starts inside the input of spatial
// sizes `sizes` or the padding before it. One entry per dimension.
std::vector<int64_t> ceil_padding_of(const Window& window, std::span<const int64_t> sizes);

}  // namespace ipu::ops
