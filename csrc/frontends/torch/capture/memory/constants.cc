#include "frontends/torch/capture/memory/constants.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/host_memory.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Whether all elements are the same: such a constant is a scalar that is expanded.
bool is_uniform(const std::byte* data, size_t item, int64_t elements) {
  return elements < 2 || std::memcmp(data, data + item, item * static_cast<size_t>(elements - 1)) == 0;
}

void warn_of_clamping() {
  TORCH_WARN(
      "A constant holds integers that do not fit 32 bits; the IPU computes with 32-bit integers, so they are "
      "clamped to that range.");
}

}  // namespace

int64_t clamped_constant(int64_t value) {
  const int64_t clamped =
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (clamped != value) warn_of_clamping();
  return clamped;
}

at::Tensor to_device_type(const at::Tensor& cpu) {
  std::optional<DType> dtype = device_dtype(cpu.scalar_type());
  if (!dtype) {
    throw Error(ErrorCode::kTypeMismatch, std::string("unsupported element type: a constant of type ") +
                                              c10::toString(cpu.scalar_type()) +
                                              " cannot be used on the IPU");
  }
  at::Tensor t = cpu.detach();
  if (cpu.scalar_type() == at::kLong) {
    constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
    at::Tensor clamped = t.clamp(low, high);
    if (!clamped.equal(t)) warn_of_clamping();
    t = clamped;
  }
  return t.to(scalar_type(*dtype)).contiguous();
}

DType required_device_dtype(const std::string& what, at::ScalarType type) {
  std::optional<DType> dtype = device_dtype(type);
  if (dtype) return *dtype;
  throw Error(ErrorCode::kTypeMismatch,
              "unsupported element type: " + what + " has type " + c10::toString(type) +
                  "; the IPU computes in float32, float16, int32, int16, int8, uint8 and bool");
}

ir::Value* Constants::value_of(const at::Tensor& cpu) {
  uint32_t version = cpu.is_inference() ? 0 : cpu.unsafeGetTensorImpl()->version_counter().current_version();
  auto found = cached_.find(cpu.unsafeGetTensorImpl());
  if (found != cached_.end() && found->second.version == version && !cpu.is_inference())
    return found->second.value;
  WithoutCapture below;
  require_host_memory(cpu, "a tensor that forward() uses");
  at::Tensor t = to_device_type(cpu);
  DType dtype = *device_dtype(cpu.scalar_type());
  Shape shape(t.sizes().begin(), t.sizes().end());
  const auto* data = host_data(t);
  ir::Value* value;
  if (t.dim() > 0 && t.numel() > 1 && is_uniform(data, t.element_size(), t.numel())) {
    value = builder_.constant(ir::make_constant(dtype, {}, data));
    value = ops::build(builder_, "expand", {value}, {{"shape", shape}});
  } else {
    value = builder_.constant(ir::make_constant(dtype, shape, data));
  }
  cached_[cpu.unsafeGetTensorImpl()] = {cpu, version, value};
  return value;
}

}  // namespace ipu::frontends::torch_frontend
