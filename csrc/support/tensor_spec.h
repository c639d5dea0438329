// Shape, element type, strides and layout of a tensor in memory: how kernels and programs describe what they
// touch.
#pragma once

#include "support/dtype.h"
#include "support/layout.h"
#include "support/shape.h"

namespace ipu {

struct TensorSpec {
  DType dtype = DType::kF32;
  Shape shape;
  Strides strides;  // in elements; contiguous_strides(shape) unless a view is read in place; ignored unless
                    // kPlain
  Layout layout = Layout::kPlain;

  bool operator==(const TensorSpec&) const = default;
  bool is_contiguous() const { return layout.is_plain() && strides == contiguous_strides(shape); }
  int64_t stored_bytes() const { return ipu::stored_bytes(dtype, shape, layout); }
  static TensorSpec plain(DType dtype, Shape shape) {
    Strides strides = contiguous_strides(shape);
    return {dtype, std::move(shape), std::move(strides), Layout::kPlain};
  }
};

}  // namespace ipu
