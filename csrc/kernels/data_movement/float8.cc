// Kernels "to_float8" and "from_float8" (x, log2_scale): conversions of 8-bit floats, scaled by a power of two.
#include "support/float8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "support/half.h"

namespace ipu::kernels {
namespace {

constexpr int32_t kScaleLow = -32, kScaleEnd = 32;

class Float8Kernel final : public PreparedKernel {
 public:
  Float8Kernel(DType from, DType to, int64_t count, bool has_scale)
      : from_(from),
        to_(to),
        count_(count),
        has_scale_(has_scale),
        lanes_(std::max(1, lanes_for_elements(count * 8))) {
    if (is_float8(from))
      for (int code = 0; code < 256; ++code)
        decoded_[code] = float8_to_float(static_cast<uint8_t>(code), from);
  }
  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    int32_t scale = 0;
    if (has_scale_) std::memcpy(&scale, call.operands[1], sizeof(scale));
    const bool is_valid = scale >= kScaleLow && scale < kScaleEnd;
    if (!is_valid) {
      if (call.fault != nullptr) call.fault->index_out_of_range("log2_scale", 0, scale, kScaleEnd, kScaleLow);
      scale = 0;
    }
    const double factor = is_valid ? std::ldexp(1.0, scale) : 0.0;
    for (int64_t i = count_ * lane / lanes_; i < count_ * (lane + 1) / lanes_; ++i)
      store(call.results[0], i, load(call.operands[0], i) * factor);
  }

  static bool is_float8(DType dtype) { return dtype == DType::kF8_143 || dtype == DType::kF8_152; }

 private:
  double load(const std::byte* x, int64_t i) const {
    if (from_ == DType::kF32) return reinterpret_cast<const float*>(x)[i];
    if (from_ == DType::kF16) return half_to_float(reinterpret_cast<const uint16_t*>(x)[i]);
    return decoded_[static_cast<uint8_t>(x[i])];
  }
  void store(std::byte* y, int64_t i, double value) const {
    if (to_ == DType::kF32)
      reinterpret_cast<float*>(y)[i] = static_cast<float>(value);
    else if (to_ == DType::kF16)
      reinterpret_cast<uint16_t*>(y)[i] = double_to_half(value);
    else
      y[i] = static_cast<std::byte>(double_to_float8(value, to_));
  }

  DType from_, to_;
  int64_t count_;
  bool has_scale_;
  int lanes_;
  std::array<float, 256> decoded_{};
};

bool has_scale(const KernelRequest& request) { return request.operands.size() > 1 && !request.is_absent(1); }

bool fits(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  const auto is_dense = [](const TensorSpec& spec) { return spec.layout.is_plain() && spec.is_contiguous(); };
  const auto is_wide = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16; };
  if (!is_dense(x) || !is_dense(y) || x.shape != y.shape) return false;
  if (has_scale(request)) {
    const TensorSpec& scale = request.operands[1];
    if (scale.dtype != DType::kI32 || !is_dense(scale) || element_count(scale.shape) != 1) return false;
  }
  return (is_wide(x.dtype) && Float8Kernel::is_float8(y.dtype)) ||
         (Float8Kernel::is_float8(x.dtype) && is_wide(y.dtype));
}

std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) {
  if (!fits(request)) return nullptr;
  return std::make_unique<Float8Kernel>(request.operands[0].dtype, request.results[0].dtype,
                                        element_count(request.results[0].shape), has_scale(request));
}

Footprint footprint(const KernelRequest& request) {
  require_counts(request, 1, 2, 1);
  Footprint footprint = footprint_of_views(request);
  require(fits(request), "has operands of other types or shapes than a conversion of 8-bit floats takes");
  return footprint;
}

IPU_REGISTER_KERNEL("to_float8", prepare, footprint);
IPU_REGISTER_KERNEL("from_float8", prepare, footprint);

}  // namespace
}  // namespace ipu::kernels
