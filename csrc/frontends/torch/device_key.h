// The one place that says which dispatch key is the IPU, and how torch's element types map to ours.
// PrivateUse1 is renamed to "ipu" when poptorch is imported (docs/rationale: the in-tree IPU key is an
// orphan).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <optional>

#include "support/dtype.h"

namespace ipu::frontends::torch_frontend {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;
inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice{kDeviceType, 0};

inline bool is_ours(const at::TensorBase& t) { return t.defined() && t.device().type() == kDeviceType; }

// Element type on the host side of an edge; nullopt for what no edge takes (complex, quantised). bfloat16 has
// no type of ours: it is converted to float32 before it reaches an edge.
inline std::optional<DType> host_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kDouble:
      return DType::kF64;
    case at::kBFloat16:
      return DType::kF32;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kShort:
      return DType::kI16;
    case at::kChar:
      return DType::kI8;
    case at::kByte:
      return DType::kU8;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

// Element type on the device: 64-bit types are narrowed, bfloat16 is widened.
inline std::optional<DType> device_dtype(at::ScalarType type) {
  std::optional<DType> d = host_dtype(type);
  if (d == DType::kI64) return DType::kI32;
  if (d == DType::kF64) return DType::kF32;
  return d;
}

// torch's name of a device type; IPU_CHECK-free: unknown ones (f8, u32, u16) come back as bytes of the same
// size.
inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kF64:
      return at::kDouble;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kI16:
      return at::kShort;
    case DType::kI8:
      return at::kChar;
    case DType::kBool:
      return at::kBool;
    case DType::kU32:
      return at::kUInt32;
    case DType::kU16:
      return at::kUInt16;
    case DType::kU8:
    case DType::kF8_143:
    case DType::kF8_152:
      return at::kByte;
  }
  return at::kByte;
}

}  // namespace ipu::frontends::torch_frontend
