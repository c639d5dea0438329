// Short names of the tensors that tests of kernels take.
#pragma once

#include <utility>

#include "support/tensor_spec.h"
#include "tests/layouts.h"

namespace ipu::kernels {

inline TensorSpec f32(Shape shape) { return TensorSpec::plain(DType::kF32, std::move(shape)); }
inline TensorSpec f16(Shape shape) { return TensorSpec::plain(DType::kF16, std::move(shape)); }
inline TensorSpec i32(Shape shape) { return TensorSpec::plain(DType::kI32, std::move(shape)); }
inline TensorSpec u32(Shape shape) { return TensorSpec::plain(DType::kU32, std::move(shape)); }
inline TensorSpec packed(Shape shape) {
  return {DType::kF32, shape, contiguous_strides(shape), panels_for(shape)};
}
inline TensorSpec nhwc(Shape shape) {
  return {DType::kF32, shape, contiguous_strides(shape), channels_last_for(shape)};
}

}  // namespace ipu::kernels
