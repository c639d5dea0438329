// Shape and element type of a result as torch sees it, and as the graph does.
#pragma once

#include <ATen/core/Tensor.h>

#include "frontends/torch/device_key.h"
#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

struct TensorMeta {
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t storage_offset = 0;
  at::ScalarType dtype = at::kFloat;
};

// A value of these sizes; an element type the device does not have stands as float32.
inline ir::Type ir_type(at::IntArrayRef sizes, at::ScalarType dtype) {
  return {device_dtype(dtype).value_or(DType::kF32), Shape(sizes.begin(), sizes.end())};
}
inline ir::Type ir_type(const TensorMeta& m) { return ir_type(m.sizes, m.dtype); }

inline TensorMeta contiguous_like(const at::Tensor& t) {
  TensorMeta meta;
  meta.sizes.assign(t.sizes().begin(), t.sizes().end());
  const Strides strides = contiguous_strides(std::span<const int64_t>(t.sizes().data(), t.sizes().size()));
  meta.strides.assign(strides.begin(), strides.end());
  meta.dtype = t.scalar_type();
  return meta;
}

}  // namespace ipu::frontends::torch_frontend
