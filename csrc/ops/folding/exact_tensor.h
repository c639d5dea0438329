// Constants of a model in the types of the model: 64-bit integers and doubles lose nothing here, where the
// reference of ops has f64 alone and the device 32 bits.
#pragma once

#include <vector>

#include "support/attributes.h"

namespace ipu::ops {

struct ExactTensor {
  DType dtype;
  Shape shape;
  std::vector<int64_t> integers;  // of integer types and booleans
  std::vector<double> reals;      // of floating-point types

  static ExactTensor of(const ConstantData& data);
  // Integers wrap to the width of the type, reals are rounded to it.
  ConstantPtr to_constant() const;
  bool is_real() const { return is_floating_point(dtype); }
  size_t size() const { return is_real() ? reals.size() : integers.size(); }
};

// In another type: reals are truncated to integers, what is not 0 is true. Reals beyond 64 bits give the
// smallest integer, as NumPy does.
ExactTensor converted(const ExactTensor& tensor, DType dtype);

// The wider of two types of a kind: operands that were narrowed on the way have another type than the model says.
DType wider(DType a, DType b);

// Where element `n` of `shape`, in row-major order, lies in a tensor with these strides.
size_t offset_of(size_t n, const Shape& shape, const Strides& strides);

}  // namespace ipu::ops
