// Kernels "cumsum" {dim, reverse}, "cumprod" and "cumprod_gradient" {dim}: one running value per row.
// Floating types run in f64, as torch's do; integers wrap.
#include <algorithm>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"

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
  template <class T>
  void each(const KernelCall& call, int64_t first, int64_t last) const {
    const auto* x = reinterpret_cast<const T*>(call.operands[0]);
    auto* y = reinterpret_cast<T*>(call.results[0]);
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row / inner * size * inner + row % inner;
      if (scan != Scan::kProductGradient)
        accumulate(x + at, y + at);
      else if constexpr (!std::is_integral_v<T>)
        gradient(x + at, reinterpret_cast<const T*>(call.operands[1]) + at, y + at);
    }
  }
  template <class T>
  void accumulate(const T* x, T* y) const {
    Running<T> value = scan == Scan::kSum ? 0 : 1;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t k = (reverse ? size - 1 - n : n) * inner;
      const auto element = static_cast<Running<T>>(x[k]);
      value = scan == Scan::kSum ? value + element : value * element;
      y[k] = static_cast<T>(value);
    }
  }
  // Two passes: what follows an element, then times what precedes it. dx holds the first in between, in the
  // type of the result.
  template <class T>
  void gradient(const T* dy, const T* x, T* dx) const {
    double after = 0.0, before = 1.0;
    for (int64_t n = size; n-- > 0;) {
      after = static_cast<double>(dy[n * inner]) +
              (n + 1 < size ? static_cast<double>(x[(n + 1) * inner]) * after : 0.0);
      dx[n * inner] = static_cast<T>(after);
    }
    for (int64_t n = 0; n < size; ++n) {
      dx[n * inner] = static_cast<T>(static_cast<double>(dx[n * inner]) * before);
      before *= static_cast<double>(x[n * inner]);
    }
  }
};

template <Scan kScan>
std::unique_ptr<PreparedKernel> prepare_scan(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  for (const TensorSpec& spec : request.operands)
    if (!spec.is_contiguous() || spec.dtype != y.dtype || spec.shape != y.shape) return nullptr;
  if (!y.is_contiguous() || size_in_bytes(y.dtype) > 4 || y.dtype == DType::kBool ||
      y.dtype == DType::kF8_143 || y.dtype == DType::kF8_152)
    return nullptr;
  if (kScan == Scan::kProductGradient && y.dtype != DType::kF32 && y.dtype != DType::kF16) return nullptr;
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

IPU_REGISTER_KERNEL("cumsum", prepare_scan<Scan::kSum>);
IPU_REGISTER_KERNEL("cumprod", prepare_scan<Scan::kProduct>);
IPU_REGISTER_KERNEL("cumprod_gradient", prepare_scan<Scan::kProductGradient>);

}  // namespace
}  // namespace ipu::kernels
