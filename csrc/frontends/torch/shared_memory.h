// Whether tensors of the caller lie in the same memory: a write through one is seen through the other.
#pragma once

#include <ATen/core/Tensor.h>

namespace ipu::frontends::torch_frontend {

enum class Sharing : uint8_t {
  kNone,
  kWhole,  // the same elements in the same order: two names of one tensor
  kPart,
};

// Compares the addresses of two CPU tensors, because arrays from elsewhere have storages of their own.
Sharing sharing_of(const at::TensorBase& a, const at::TensorBase& b);

// Several elements are one place in memory, as in expand(): such a tensor cannot be written.
bool repeats_elements(const at::TensorBase& t);

}  // namespace ipu::frontends::torch_frontend
