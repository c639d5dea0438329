// Kernels "cumsum" {dim, reverse}, "cumprod" and "cumprod_gradient" {dim}: one running value per row.
// Floating types run in f64, as torch's do; integers wrap.
#include <algorithm>
#include <type_traits>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

enum class Scan : uint8_t { kSum, kProduct, kProductGradient };

template <class T>
using Running = std::conditional_t<std::is_integral_v<T>, uint32_t, double>;

class ScanKernel final : public PreparedKernel {
 public:
  DType dtype = DType::kF32;
  Scan scan = Scan::kSum;
  bool reverse = false;
  int64_t outer = 1, size = 1, inner = 1;
  int lane_count = 1;

  int lanes() const override { return lane_count; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t rows = outer * inner;
    const int64_t first = rows * lane / lane_count, last = rows * (lane + 1) / lane_count;
    switch (dtype) {
      case DType::kF32:
        return each<float>(call, first, last);
      case DType::kF16:
        return each<_Float16>(call, first, last);
      case DType::kI16:
      case DType::kU16:
        return each<uint16_t>(call, first, last);
      case DType::kI8:
      case DType::kU8:
        return each<uint8_t>(call, first, last);
      default:
        return each<uint32_t>(call, first, last);
    }
  }

 private:
  static constexpr int64_t kCost = 4;  // one element waits for the other, rows may be far apart

  template <class T>
  void each(const KernelCall& call, int64_t first, int64_t last) const {
    const auto* x = reinterpret_cast<const T*>(call.operands[0]);
    auto* y = reinterpret_cast<T*>(call.results[0]);
    StopMeter meter(call);
    in_pieces(meter, last - first, size * kCost + 1, [&](int64_t begin, int64_t n) {
      for (int64_t row = first + begin; row < first + begin + n; ++row) {
        const int64_t at = row / inner * size * inner + row % inner;
        if (scan != Scan::kProductGradient)
          accumulate(meter, x + at, y + at);
        else if constexpr (!std::is_integral_v<T>)
          gradient(meter, x + at, reinterpret_cast<const T*>(call.operands[1]) + at, y + at);
      }
    });
  }
  // value = piece(first, last, value) along a row. A row longer than a piece is left when the meter stops;
  // the others are counted by who goes through the rows.
  template <class Value, class Piece>
  void along(StopMeter& meter, Value value, Piece piece) const {
    constexpr int64_t kMost = StopMeter::kPiece / kCost;
    if (size <= kMost) return void(piece(0, size, value));
    for (int64_t n = 0; n < size && !meter.stops(StopMeter::kPiece); n += kMost)
      value = piece(n, std::min(size, n + kMost), value);
  }
  template <class T>
  void accumulate(StopMeter& meter, const T* x, T* y) const {
    along(meter, Running<T>(scan == Scan::kSum ? 0 : 1), [&](int64_t n, int64_t last, Running<T> value) {
      for (; n < last; ++n) {
        const int64_t k = (reverse ? size - 1 - n : n) * inner;
        const auto element = static_cast<Running<T>>(x[k]);
        value = scan == Scan::kSum ? value + element : value * element;
        y[k] = static_cast<T>(value);
      }
      return value;
    });
  }
  // Two passes: what follows an element, then times what precedes it. dx holds the first in between, in the
  // type of the result.
  template <class T>
  void gradient(StopMeter& meter, const T* dy, const T* x, T* dx) const {
    along(meter, 0.0, [&](int64_t k, int64_t last, double after) {
      for (; k < last; ++k) {
        const int64_t n = size - 1 - k;
        after = static_cast<double>(dy[n * inner]) +
                (n + 1 < size ? static_cast<double>(x[(n + 1) * inner]) * after : 0.0);
        dx[n * inner] = static_cast<T>(after);
      }
      return after;
    });
    along(meter, 1.0, [&](int64_t n, int64_t last, double before) {
      for (; n < last; ++n) {
        dx[n * inner] = static_cast<T>(static_cast<double>(dx[n * inner]) * before);
        before *= static_cast<double>(x[n * inner]);
      }
      return before;
    });
  }
};

template <Scan kScan>
bool can_scan(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  for (const TensorSpec& spec : request.operands)
    if (!spec.is_contiguous() || spec.dtype != y.dtype || spec.shape != y.shape) return false;
  if (!y.is_contiguous() || size_in_bytes(y.dtype) > 4 || y.dtype == DType::kBool ||
      y.dtype == DType::kF8_143 || y.dtype == DType::kF8_152)
    return false;
  return kScan != Scan::kProductGradient || y.dtype == DType::kF32 || y.dtype == DType::kF16;
}

template <Scan kScan>
std::unique_ptr<PreparedKernel> prepare_scan(const KernelRequest& request) {
  if (!can_scan<kScan>(request)) return nullptr;
  const TensorSpec& y = request.results[0];
  const auto dim = static_cast<size_t>(request.attributes.integer("dim"));
  if (dim >= y.shape.size()) return nullptr;
  auto kernel = std::make_unique<ScanKernel>();
  kernel->dtype = y.dtype;
  kernel->scan = kScan;
  kernel->reverse = kScan == Scan::kSum && request.attributes.boolean("reverse", false);
  for (size_t d = 0; d < y.shape.size(); ++d)
    (d < dim ? kernel->outer : d == dim ? kernel->size : kernel->inner) *= y.shape[d];
  const int64_t rows = kernel->outer * kernel->inner;
  kernel->lane_count = static_cast<int>(
      std::clamp<int64_t>(lanes_for_elements(rows * kernel->size), 1, std::max<int64_t>(rows, 1)));
  return kernel;
}

template <Scan kScan>
Footprint footprint_of_scan(const KernelRequest& request) {
  require_counts(request, kScan == Scan::kProductGradient ? 2 : 1, 1);
  require_sound(request);
  require(can_scan<kScan>(request), "scans types, shapes or layouts that do not fit");
  dimension_of(request, "dim", request.results[0].shape.size());
  boolean_of(request, "reverse", false);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("cumsum", prepare_scan<Scan::kSum>, footprint_of_scan<Scan::kSum>);
IPU_REGISTER_KERNEL("cumprod", prepare_scan<Scan::kProduct>, footprint_of_scan<Scan::kProduct>);
IPU_REGISTER_KERNEL("cumprod_gradient", prepare_scan<Scan::kProductGradient>,
                    footprint_of_scan<Scan::kProductGradient>);

}  // namespace
}  // namespace ipu::kernels
