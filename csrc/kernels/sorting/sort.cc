// Kernel "sort" {dim, descending, count}: values in order and the index each had; of equal values the first
// comes first, NaN counts as largest. A row is sorted as keys that compare like its values, with the index
// below them, so that any algorithm is stable; with a small count only the front is sorted. Long rows are
// split by the bits of their keys until a piece is sorted in milliseconds.
#include <algorithm>
#include <bit>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"
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

constexpr int64_t kSortedAtOnce = 32 * 1024;  // keys: a few milliseconds
constexpr int64_t kSortCost = StopMeter::kPiece / kSortedAtOnce;

// Moves the keys without the highest bit in which any two differ to the front; how many there are, or -1 when
// the meter stopped it. All keys are different.
int64_t split(StopMeter& meter, uint64_t* keys, int64_t n) {
  uint64_t differing = 0;
  int64_t low = 0;
  bool goes_on = in_pieces(meter, n, 1, [&](int64_t at, int64_t count) {
    for (int64_t i = at; i < at + count; ++i) differing |= keys[i] ^ keys[0];
  });
  const uint64_t bit = std::bit_floor(differing);
  goes_on = goes_on && in_pieces(meter, n, 2, [&](int64_t at, int64_t count) {
              for (int64_t i = at; i < at + count; ++i) {
                const uint64_t key = keys[i];
                keys[i] = keys[low];
                keys[low] = key;
                low += (key & bit) == 0;
              }
            });
  return goes_on ? low : -1;
}

// False when the meter stopped it.
bool sort_keys(StopMeter& meter, uint64_t* keys, int64_t n) {
  if (n <= kSortedAtOnce) {
    if (meter.stops(n * kSortCost)) return false;
    std::sort(keys, keys + n);
    return true;
  }
  const int64_t low = split(meter, keys, n);
  return low >= 0 && sort_keys(meter, keys, low) && sort_keys(meter, keys + low, n - low);
}

// Moves the `count` smallest keys to the front, in any order; count < n.
bool select_keys(StopMeter& meter, uint64_t* keys, int64_t count, int64_t n) {
  while (n > kSortedAtOnce) {
    const int64_t low = split(meter, keys, n);
    if (low < 0) return false;
    if (count < low) {
      n = low;
    } else {
      keys += low;
      count -= low;
      n -= low;
    }
  }
  if (meter.stops(n * kSortCost)) return false;
  std::nth_element(keys, keys + count, keys + n);
  return true;
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
    StopMeter meter(call);
    for (int64_t r = rows * lane / lane_count; r < rows * (lane + 1) / lane_count; ++r)
      if (!sort_row(meter, call, r)) return;
  }

 private:
  static constexpr int64_t kCost = 4;  // elements of a row may be far apart

  // False when the meter stopped it.
  bool sort_row(StopMeter& meter, const KernelCall& call, int64_t row) const {
    const int64_t o = row / inner, i = row % inner, bytes = size_in_bytes(dtype);
    const std::byte* x = call.operands[0] + (o * size * inner + i) * bytes;
    auto* keys = reinterpret_cast<uint64_t*>(call.scratch);
    bool goes_on = in_pieces(meter, size, kCost, [&](int64_t at, int64_t n) {
      for (int64_t k = at; k < at + n; ++k) {
        const uint32_t key = key_at(dtype, x, k * inner);
        keys[k] = static_cast<uint64_t>(descending ? ~key : key) << 32 | static_cast<uint64_t>(k);
      }
    });
    goes_on =
        goes_on && (count >= size || select_keys(meter, keys, count, size)) && sort_keys(meter, keys, count);
    if (!goes_on) return false;
    std::byte* values = call.results[0] + (o * count * inner + i) * bytes;
    auto* indices = reinterpret_cast<int32_t*>(call.results[1]) + o * count * inner + i;
    return in_pieces(meter, count, kCost, [&](int64_t at, int64_t n) {
      for (int64_t k = at; k < at + n; ++k) {
        const auto from = static_cast<int64_t>(keys[k] & UINT32_MAX);
        std::copy_n(x + from * inner * bytes, bytes, values + k * inner * bytes);
        indices[k * inner] = static_cast<int32_t>(from);
      }
    });
  }
};

bool can_sort(const TensorSpec& x, const TensorSpec& values, const TensorSpec& indices) {
  return x.is_contiguous() && values.is_contiguous() && indices.is_contiguous() && x.dtype == values.dtype &&
         indices.dtype == DType::kI32 && x.dtype != DType::kF8_143 && x.dtype != DType::kF8_152 &&
         size_in_bytes(x.dtype) <= 4;
}

std::unique_ptr<PreparedKernel> prepare_sort(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &values = request.results[0], &indices = request.results[1];
  if (!can_sort(x, values, indices)) return nullptr;
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

Footprint footprint_of_sort(const KernelRequest& request) {
  require_counts(request, 1, 2);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &values = request.results[0], &indices = request.results[1];
  require(can_sort(x, values, indices), "sorts types or layouts it cannot");
  const auto dim = static_cast<size_t>(dimension_of(request, "dim", x.shape.size()));
  boolean_of(request, "descending", false);
  require(x.shape[dim] <= INT32_MAX, "sorts rows that are too long");
  Shape sorted = x.shape;
  if (values.shape.size() == sorted.size()) sorted[dim] = std::min(values.shape[dim], sorted[dim]);
  require(values.shape == sorted && indices.shape == sorted, "has results of another shape than it makes");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("sort", prepare_sort, footprint_of_sort);

}  // namespace
}  // namespace ipu::kernels
