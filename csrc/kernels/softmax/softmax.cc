// Kernels "softmax", "log_softmax" (x) and their gradients (y, dy), attribute `dim`. The result may lie in
// the memory of an operand: every pass over a slice reads it before it is written. Attribute `zero_blocked` of
// "softmax": a slice of -inf gives zeros, not NaN.
#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/footprint.h"
#include "kernels/softmax/row_softmax.h"
#include "kernels/softmax/slices.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

enum class Softmax : uint8_t { kForward, kLogForward, kGradient, kLogGradient };

template <Softmax kKind>
class SoftmaxKernel final : public PreparedKernel {
 public:
  SoftmaxKernel(const Slices& slices, DType dtype, bool zero_blocked)
      : math_(slices, dtype),
        row_(row_softmax()),
        zero_blocked_(zero_blocked),
        half_(dtype == DType::kF16),
        short_rows_(slices.inner == 1 && slices.size <= static_cast<int64_t>(kLongestShortRow)) {}
  int lanes() const override { return math_.slices().lanes; }
  int64_t scratch_bytes() const override {
    if (short_rows_) return half_ ? 2 * kWideElements * 4 : 0;
    return math_.scratch_bytes(3);
  }

  void run(const KernelCall& call, int lane) const override {
    const int64_t panels = math_.slices().panels, lanes = math_.slices().lanes;
    if (short_rows_) return run_rows(call, panels * lane / lanes, panels * (lane + 1) / lanes);
    std::byte* scratch = call.scratch;
    float *first = math_.statistic(scratch, 0), *second = math_.statistic(scratch, 1);
    const BlockOps& ops = math_.ops();
    StopMeter meter(call);
    for (int64_t i = panels * lane / lanes; i < panels * (lane + 1) / lanes; ++i) {
      const Panel a = math_.panel(call.operands[0], i, scratch, 0);
      const Panel out = math_.panel(call.results[0], i, scratch, 2, true);
      if constexpr (kKind == Softmax::kForward) {
        math_.maximum(a, first);
        if (zero_blocked_)
          std::replace(first, first + a.columns, -std::numeric_limits<float>::infinity(), 0.0f);
        math_.apply(ops.exp_difference, out, a, first, scratch);
        math_.sum(out, scratch, second);
        if (zero_blocked_) std::replace(second, second + a.columns, 0.0f, 1.0f);
        math_.apply(ops.compute[static_cast<size_t>(OpCode::kDivF)], out, out, second, scratch);
      } else if constexpr (kKind == Softmax::kLogForward) {
        math_.maximum(a, first);
        math_.sum_of_exp(a, first, scratch, second);
        BlockCall logarithm{.count = static_cast<size_t>(a.columns), .result = second, .a = second};
        ops.compute[static_cast<size_t>(OpCode::kLogF)](logarithm);
        math_.apply(ops.subtract_twice, out, a, first, second, scratch);
      } else {
        const Panel b = math_.panel(call.operands[1], i, scratch, 1);
        if constexpr (kKind == Softmax::kGradient) {
          math_.sum_of_products(a, b, scratch, first);
          math_.apply(ops.difference_times, out, b, first, a, scratch);
        } else {
          math_.sum(b, scratch, first);
          math_.apply(ops.minus_exp_times, out, b, a, first, scratch);
        }
      }
      math_.store(out, call.results[0], i);
      if (meter.stops(2 * out.rows * out.columns)) return;
    }
  }

 private:
  void run_rows(const KernelCall& call, int64_t first, int64_t last) const {
    constexpr int64_t kStepElements = 1 << 15;
    const int64_t size = math_.slices().size, step = std::max<int64_t>(1, kStepElements / (size + 1));
    StopMeter meter(call);
    for (; first < last; first += step) {
      run_some_rows(call, first, std::min(last, first + step));
      if (meter.stops(2 * kStepElements)) return;
    }
  }
  void run_some_rows(const KernelCall& call, int64_t first, int64_t last) const {
    const int64_t size = math_.slices().size;
    const auto operand = [&](size_t i) { return reinterpret_cast<const float*>(call.operands[i]); };
    constexpr bool kForward = kKind == Softmax::kForward || kKind == Softmax::kLogForward;
    if (!half_)
      return run_each(operand(0), operand(kForward ? 0 : 1), reinterpret_cast<float*>(call.results[0]), first,
                      last);
    // As many rows at a time as there is room for, widened into scratch; the result takes the place of the first.
    float* const wide[2] = {reinterpret_cast<float*>(call.scratch),
                            reinterpret_cast<float*>(call.scratch) + kWideElements};
    const int64_t some = std::max<int64_t>(1, kWideElements / std::max<int64_t>(1, size));
    for (; first < last; first += some) {
      const int64_t rows = std::min(some, last - first);
      const auto count = static_cast<size_t>(rows * size);
      for (size_t i = 0; i < (kForward ? 1 : 2); ++i)
        math_.widen()({.count = count, .result = wide[i], .a = call.operands[i] + first * size * 2});
      run_each(wide[0], wide[1], wide[0], 0, rows);
      math_.narrow()({.count = count, .result = call.results[0] + first * size * 2, .a = wide[0]});
    }
  }
  // b: what gradients read besides a.
  void run_each(const float* a, const float* b, float* out, int64_t first, int64_t last) const {
    const int64_t size = math_.slices().size;
    const auto count = static_cast<size_t>(size);
    if constexpr (kKind == Softmax::kForward || kKind == Softmax::kLogForward) {
      const auto function = kKind == Softmax::kLogForward ? row_.log_softmax
                            : zero_blocked_               ? row_.softmax_or_zero
                                                          : row_.softmax;
      for (int64_t r = first; r < last; ++r) function(a + r * size, count, out + r * size);
    } else {
      const auto function = kKind == Softmax::kGradient ? row_.softmax_gradient : row_.log_softmax_gradient;
      for (int64_t r = first; r < last; ++r) function(a + r * size, b + r * size, count, out + r * size);
    }
  }

  // f32 elements of each operand that stay in the nearest cache with those of the other.
  static constexpr int64_t kWideElements = 2048;
  static_assert(kWideElements >= static_cast<int64_t>(kLongestShortRow));

  SliceMath math_;
  const RowSoftmax& row_;
  bool zero_blocked_, half_, short_rows_;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <Softmax kKind>
std::optional<Slices> plan_of(const KernelRequest& request) {
  constexpr bool kForward = kKind == Softmax::kForward || kKind == Softmax::kLogForward;
  if (request.operands.size() != (kForward ? 1 : 2) || request.results.size() != 1) return std::nullopt;
  const TensorSpec& y = request.results[0];
  if (!(y.dtype == DType::kF32 || y.dtype == DType::kF16)) return std::nullopt;
  for (const TensorSpec& x : request.operands)
    if (x.layout != y.layout || x.shape != y.shape || x.dtype != y.dtype ||
        (x.layout.is_plain() && !x.is_contiguous()))
      return std::nullopt;
  boolean_of(request, "zero_blocked", false);  // refused here when it is of another kind
  return slices_of(y, integer_of(request, "dim"));
}

template <Softmax kKind>
std::unique_ptr<PreparedKernel> prepare_softmax(const KernelRequest& request) {
  const std::optional<Slices> slices = plan_of<kKind>(request);
  if (!slices) return nullptr;
  return std::make_unique<SoftmaxKernel<kKind>>(*slices, request.results[0].dtype,
                                                boolean_of(request, "zero_blocked", false));
}

template <Softmax kKind>
Footprint footprint_of_softmax(const KernelRequest& request) {
  require_counts(request, 1, 2, 1);
  require_sound(request);
  require(plan_of<kKind>(request).has_value(), "has no softmax's shapes, strides, types or dimension");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("softmax", prepare_softmax<Softmax::kForward>, footprint_of_softmax<Softmax::kForward>);
IPU_REGISTER_KERNEL("log_softmax", prepare_softmax<Softmax::kLogForward>,
                    footprint_of_softmax<Softmax::kLogForward>);
IPU_REGISTER_KERNEL("softmax_gradient", prepare_softmax<Softmax::kGradient>,
                    footprint_of_softmax<Softmax::kGradient>);
IPU_REGISTER_KERNEL("log_softmax_gradient", prepare_softmax<Softmax::kLogGradient>,
                    footprint_of_softmax<Softmax::kLogGradient>);

}  // namespace
}  // namespace ipu::kernels
