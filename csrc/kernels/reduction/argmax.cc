// Kernels "argmax" and "argmin" {dim, keep_dims} → i32: the first extreme element, the first NaN before all.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/reduction/fold_ops.h"
#include "kernels/stop_meter.h"
#include "support/half.h"

namespace ipu::kernels {
namespace {

// f16 compares as the f32 it stands for.
struct HalfBits {
  uint16_t bits;
};
inline float comparable(HalfBits h) { return half_to_float(h.bits); }
template <class T>
T comparable(T value) {
  return value;
}
template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

class ArgKernel final : public PreparedKernel {
 public:
  DType dtype = DType::kF32;
  bool largest = true;
  int64_t size = 1, stride = 1;  // of the searched dimension
  Shape kept;
  Strides from, to;
  int64_t results = 0;
  int lane_count = 1;
  FoldOps fold;  // contiguous f32 rows: find the value first, then its place

  int lanes() const override { return lane_count; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t first = results * lane / lane_count, last = results * (lane + 1) / lane_count;
    switch (dtype) {
      case DType::kF32:
        return search<float>(call, first, last);
      case DType::kF16:
        return search<HalfBits>(call, first, last);
      case DType::kI32:
        return search<int32_t>(call, first, last);
      case DType::kU32:
        return search<uint32_t>(call, first, last);
      case DType::kI16:
        return search<int16_t>(call, first, last);
      case DType::kU16:
        return search<uint16_t>(call, first, last);
      case DType::kI8:
        return search<int8_t>(call, first, last);
      default:
        return search<uint8_t>(call, first, last);
    }
  }

 private:
  static constexpr int64_t kCost = 4;  // neighbours of a searched element may be far apart

  template <class T>
  void search(const KernelCall& call, int64_t first, int64_t last) const {
    const T* x = reinterpret_cast<const T*>(call.operands[0]);
    auto* result = reinterpret_cast<int32_t*>(call.results[0]);
    StopMeter meter(call);
    for (int64_t i = first; i < last; ++i) {
      int64_t at = 0, out = 0, rest = i;
      for (size_t d = kept.size(); d-- > 0;) {
        const int64_t k = rest % kept[d];
        rest /= kept[d];
        at += k * from[d];
        out += k * to[d];
      }
      if (meter.stops(static_cast<int64_t>(kept.size()))) return;
      const int64_t place = search_one(meter, x + at);
      if (place < 0) return;
      result[out] = static_cast<int32_t>(place);
    }
  }

  // The place of the extreme element, -1 when the meter stopped the search.
  template <class T>
  int64_t search_one(StopMeter& meter, const T* x) const {
    if constexpr (std::is_same_v<T, float>)
      if (stride == 1 && size >= 64) return search_row(meter, x);
    auto best_value = comparable(x[0]);
    int64_t best = 0;
    const bool goes_on = in_pieces(meter, size, kCost, [&](int64_t at, int64_t n) {
      for (int64_t k = std::max<int64_t>(at, 1); k < at + n && !is_nan(best_value); ++k) {
        const auto value = comparable(x[k * stride]);
        if ((largest ? value > best_value : value < best_value) || is_nan(value))
          best_value = value, best = k;
      }
    });
    return goes_on ? best : -1;
  }

  int64_t search_row(StopMeter& meter, const float* x) const {
    constexpr auto kBlock = static_cast<int64_t>(kFoldBlock);
    float best = x[0];
    int64_t block = 0;
    for (int64_t i = 0; i < size && !std::isnan(best); i += kBlock) {
      const int64_t n = std::min(kBlock, size - i);
      if (meter.stops(n)) return -1;
      const uint32_t bits = fold.row(reinterpret_cast<const uint32_t*>(x + i), static_cast<size_t>(n));
      float value;
      std::memcpy(&value, &bits, 4);
      if ((largest ? value > best : value < best) || std::isnan(value)) best = value, block = i;
    }
    // The value may be gone when somebody writes to the operand meanwhile: the row ends the search.
    const float *from = x + block, *last = x + std::min(block + kBlock, size) - 1;
    if (std::isnan(best)) return std::find_if(from, last, [](float v) { return std::isnan(v); }) - x;
    return std::find(from, last, best) - x;
  }
};

bool can_search(const TensorSpec& x, const TensorSpec& y) {
  return !x.layout.is_blocked() && !y.layout.is_blocked() && y.dtype == DType::kI32 &&
         size_in_bytes(x.dtype) <= 4 && x.dtype != DType::kF8_143 && x.dtype != DType::kF8_152;
}

template <bool kLargest>
std::unique_ptr<PreparedKernel> prepare_arg(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!can_search(x, y)) return nullptr;
  const auto dim = static_cast<size_t>(request.attributes.integer("dim"));
  const Strides from = memory_strides(x), to = memory_strides(y);
  if (dim >= x.shape.size() || x.shape[dim] == 0) return nullptr;
  auto kernel = std::make_unique<ArgKernel>();
  kernel->dtype = x.dtype;
  kernel->largest = kLargest;
  kernel->size = x.shape[dim];
  kernel->stride = from[dim];
  kernel->results = 1;
  size_t result_dim = 0;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (d == dim) {
      result_dim += request.attributes.boolean("keep_dims", false);
      continue;
    }
    kernel->kept.push_back(x.shape[d]);
    kernel->from.push_back(from[d]);
    kernel->to.push_back(to[result_dim++]);
    kernel->results *= x.shape[d];
  }
  kernel->fold = fold_ops(kLargest ? FoldKind::kMaxF : FoldKind::kMinF);
  kernel->lane_count = static_cast<int>(std::clamp<int64_t>(
      lanes_for_elements(kernel->results * kernel->size), 1, std::max<int64_t>(kernel->results, 1)));
  return kernel;
}

Footprint footprint_of_arg(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_search(x, y), "searches types or layouts it cannot");
  const auto dim = static_cast<size_t>(dimension_of(request, "dim", x.shape.size()));
  require(x.shape[dim] >= 1 && x.shape[dim] <= INT32_MAX, "searches too few or too many elements");
  require(
      y.shape == reduced_shape(x.shape, {static_cast<int64_t>(dim)}, boolean_of(request, "keep_dims", false)),
      "has a result of another shape than it makes");
  require_disjoint(y);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("argmax", prepare_arg<true>, footprint_of_arg);
IPU_REGISTER_KERNEL("argmin", prepare_arg<false>, footprint_of_arg);

}  // namespace
}  // namespace ipu::kernels
