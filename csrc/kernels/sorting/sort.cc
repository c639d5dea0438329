// Kernel "sort" {dim, descending, count}: values in order and the index each had; of equal values the first
// comes first, NaN counts as largest. A row is sorted as keys that compare like its values, with the index
// below them, so that any algorithm is stable; with a small count only the front is sorted.
#include <algorithm>
#include <bit>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "support/half.h"

namespace ipu::kernels {
namespace {

// Unsigned keys in the order of the values; all NaN are equal and above the rest.
uint32_t key_of(float x) {
  if (x != x) return UINT32_MAX;
  if (x == 0.0f) x = 0.0f;  // -0 and 0 are equal
  const auto bits = std::bit_cast<uint32_t>(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

uint32_t key_at(DType dtype, const std::byte* x, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return key_of(reinterpret_cast<const float*>(x)[i]);
    case DType::kF16:
      return key_of(half_to_float(reinterpret_cast<const uint16_t*>(x)[i]));
    case DType::kI32:
      return static_cast<uint32_t>(reinterpret_cast<const int32_t*>(x)[i]) ^ 0x80000000u;
    case DType::kU32:
      return reinterpret_cast<const uint32_t*>(x)[i];
    case DType::kI16:
      return static_cast<uint32_t>(reinterpret_cast<const int16_t*>(x)[i] + 0x8000);
    case DType::kU16:
      return reinterpret_cast<const uint16_t*>(x)[i];
    case DType::kI8:
      return static_cast<uint32_t>(reinterpret_cast<const int8_t*>(x)[i] + 0x80);
    default:
      return reinterpret_cast<const uint8_t*>(x)[i];
  }
}

class SortKernel final : public PreparedKernel {
 public:
  DType dtype = DType::kF32;
  bool descending = false;
  int64_t outer = 1, size = 1, inner = 1, count = 0;
  int lane_count = 1;

  int lanes() const override { return lane_count; }
  int64_t scratch_bytes() const override { return size * static_cast<int64_t>(sizeof(uint64_t)); }
  void run(const KernelCall& call, int lane) const override {
    const int64_t rows = outer * inner;
    for (int64_t r = rows * lane / lane_count; r < rows * (lane + 1) / lane_count; ++r) sort_row(call, r);
  }

 private:
  void sort_row(const KernelCall& call, int64_t row) const {
    const int64_t o = row / inner, i = row % inner, bytes = size_in_bytes(dtype);
    const std::byte* x = call.operands[0] + (o * size * inner + i) * bytes;
    auto* keys = reinterpret_cast<uint64_t*>(call.scratch);
    for (int64_t k = 0; k < size; ++k) {
      const uint32_t key = key_at(dtype, x, k * inner);
      keys[k] = static_cast<uint64_t>(descending ? ~key : key) << 32 | static_cast<uint64_t>(k);
    }
    if (count < size) {
      std::nth_element(keys, keys + count, keys + size);
      std::sort(keys, keys + count);
    } else {
      std::sort(keys, keys + size);
    }
    std::byte* values = call.results[0] + (o * count * inner + i) * bytes;
    auto* indices = reinterpret_cast<int32_t*>(call.results[1]) + o * count * inner + i;
    for (int64_t k = 0; k < count; ++k) {
      const auto from = static_cast<int64_t>(keys[k] & UINT32_MAX);
      std::copy_n(x + from * inner * bytes, bytes, values + k * inner * bytes);
      indices[k * inner] = static_cast<int32_t>(from);
    }
  }
};

std::unique_ptr<PreparedKernel> prepare_sort(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &values = request.results[0], &indices = request.results[1];
  if (!x.is_contiguous() || !values.is_contiguous() || !indices.is_contiguous()) return nullptr;
  if (x.dtype != values.dtype || indices.dtype != DType::kI32 || x.dtype == DType::kF8_143 ||
      x.dtype == DType::kF8_152 || size_in_bytes(x.dtype) > 4)
    return nullptr;
  const auto dim = static_cast<size_t>(request.attributes.integer("dim"));
  if (dim >= x.shape.size()) return nullptr;
  auto kernel = std::make_unique<SortKernel>();
  kernel->dtype = x.dtype;
  kernel->descending = request.attributes.boolean("descending", false);
  for (size_t d = 0; d < x.shape.size(); ++d)
    (d < dim ? kernel->outer : d == dim ? kernel->size : kernel->inner) *= x.shape[d];
  kernel->count = values.shape[dim];
  const int64_t rows = kernel->outer * kernel->inner;
  kernel->lane_count = static_cast<int>(
      std::clamp<int64_t>(lanes_for_elements(rows * kernel->size * 8), 1, std::max<int64_t>(rows, 1)));
  return kernel;
}

IPU_REGISTER_KERNEL("sort", prepare_sort);

}  // namespace
}  // namespace ipu::kernels
