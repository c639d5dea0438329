// Kernels "argmax" and "argmin" {dim, keep_dims} → i32: the first extreme element, the first NaN before all.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/reduction/fold_ops.h"
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
  template <class T>
  void search(const KernelCall& call, int64_t first, int64_t last) const {
    const T* x = reinterpret_cast<const T*>(call.operands[0]);
    auto* result = reinterpret_cast<int32_t*>(call.results[0]);
    for (int64_t i = first; i < last; ++i) {
      int64_t at = 0, out = 0, rest = i;
      for (size_t d = kept.size(); d-- > 0;) {
        const int64_t k = rest % kept[d];
        rest /= kept[d];
        at += k * from[d];
        out += k * to[d];
      }
      result[out] = static_cast<int32_t>(search_one(x + at));
    }
  }

  template <class T>
  int64_t search_one(const T* x) const {
    if constexpr (std::is_same_v<T, float>)
      if (stride == 1 && size >= 64) return search_row(x);
    auto best_value = comparable(x[0]);
    int64_t best = 0;
    for (int64_t k = 1; k < size && !is_nan(best_value); ++k) {
      const auto value = comparable(x[k * stride]);
      if ((largest ? value > best_value : value < best_value) || is_nan(value)) best_value = value, best = k;
    }
    return best;
  }

  int64_t search_row(const float* x) const {
    constexpr auto kBlock = static_cast<int64_t>(kFoldBlock);
    float best = x[0];
    int64_t block = 0;
    for (int64_t i = 0; i < size && !std::isnan(best); i += kBlock) {
      const uint32_t bits =
          fold.row(reinterpret_cast<const uint32_t*>(x + i), static_cast<size_t>(std::min(kBlock, size - i)));
      float value;
      std::memcpy(&value, &bits, 4);
      if ((largest ? value > best : value < best) || std::isnan(value)) best = value, block = i;
    }
    if (std::isnan(best)) {
      while (!std::isnan(x[block])) ++block;
    } else {
      while (x[block] != best) ++block;
    }
    return block;
  }
};

template <bool kLargest>
std::unique_ptr<PreparedKernel> prepare_arg(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (x.layout == Layout::kPacked64 || y.layout == Layout::kPacked64 || y.dtype != DType::kI32)
    return nullptr;
  if (size_in_bytes(x.dtype) > 4 || x.dtype == DType::kF8_143 || x.dtype == DType::kF8_152) return nullptr;
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

IPU_REGISTER_KERNEL("argmax", prepare_arg<true>);
IPU_REGISTER_KERNEL("argmin", prepare_arg<false>);

}  // namespace
}  // namespace ipu::kernels
