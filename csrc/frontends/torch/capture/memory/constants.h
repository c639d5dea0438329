// Host values as constants of the graph: each tensor once, as long as nobody writes it. Also what becomes of
// host values in the element types of the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

// A CPU tensor, contiguous, in the device's element type. 64-bit integers that do not fit are clamped, with a
// warning.
at::Tensor to_device_type(const at::Tensor& cpu);
int64_t clamped_constant(int64_t value);  // the same of a number

// Error(kTypeMismatch) naming `what` when the device has no such type.
DType required_device_dtype(const std::string& what, at::ScalarType type);

class Constants {
 public:
  explicit Constants(ir::Builder& builder) : builder_(builder) {}

  ir::Value* value_of(const at::Tensor& cpu);

 private:
  struct Cached {
    at::Tensor tensor;  // keeps its identity, which is the key
    uint32_t version;
    ir::Value* value;
  };
  ir::Builder& builder_;
  std::unordered_map<const c10::TensorImpl*, Cached> cached_;
};

}  // namespace ipu::frontends::torch_frontend
