// Kernels "nll_loss" (log_probs, target), "cross_entropy" (x, target) and their gradients (dy, ..., target):
// classes are dimension 1 ([N,C], [N,C,d1,...]) or the only one. Attributes ignore_index, reduction ("mean",
// "sum", "none") and, for cross_entropy, label_smoothing. A class outside [0, C) that is not ignore_index is
// reported as a fault and has neither loss nor gradient. A reduced loss is one lane: its terms are added as a
// tree in order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/loss/loss_reduction.h"
#include "kernels/softmax/slices.h"
#include "kernels/stop_meter.h"
#include "support/half.h"

namespace ipu::kernels {
namespace {

struct Loss {
  SliceMath math;
  DType dtype;
  bool has_softmax;  // cross_entropy: operand x is logits
  LossReduction reduction;
  int32_t ignore_index;
  float smoothing;

  int64_t classes() const { return math.slices().size; }
  int64_t targets() const { return math.slices().outer * math.slices().inner; }
  // First target of a panel; its columns are neighbours.
  int64_t first_target(int64_t panel) const {
    return panel / math.slices().panels_per_outer() * math.slices().inner + math.first_column(panel);
  }
  // Class of target `at`, or -1 when it does not count.
  int32_t target_class(const int32_t* targets, int64_t at, KernelFault* fault) const {
    // Read once, as the atomic load sees to: what is checked is what is used.
    const int32_t c = __atomic_load_n(targets + at, __ATOMIC_RELAXED);
    if (c == ignore_index) return -1;
    if (c >= 0 && c < classes()) return c;
    if (fault != nullptr) fault->index_out_of_range("target", at, c, classes());
    return -1;
  }
  float counted(const int32_t* list, StopMeter& meter) const {
    constexpr int64_t kStep = 1 << 15;
    const int64_t all = targets();
    int64_t n = 0;
    for (int64_t first = 0; first < all; first += kStep) {
      const int64_t last = std::min(all, first + kStep);
      for (int64_t i = first; i < last; ++i) n += list[i] != ignore_index;
      if (meter.stops(last - first)) break;
    }
    return static_cast<float>(n);
  }
  // Estimates the time for a panel of `columns` columns.
  int64_t nanoseconds(int64_t columns) const { return 2 * (math.slices().size + 8) * columns; }
};

float read_float(const std::byte* at, DType dtype) {
  if (dtype == DType::kF32) return *reinterpret_cast<const float*>(at);
  return half_to_float(*reinterpret_cast<const uint16_t*>(at));
}
void write_float(std::byte* at, DType dtype, float value) {
  if (dtype == DType::kF32)
    *reinterpret_cast<float*>(at) = value;
  else
    *reinterpret_cast<uint16_t*>(at) = float_to_half(value);
}

class LossKernel final : public PreparedKernel {
 public:
  explicit LossKernel(Loss loss) : loss_(std::move(loss)) {}
  int lanes() const override {
    return loss_.reduction == LossReduction::kNone ? loss_.math.slices().lanes : 1;
  }
  int64_t scratch_bytes() const override { return loss_.math.scratch_bytes(1); }

  void run(const KernelCall& call, int lane) const override {
    const SliceMath& math = loss_.math;
    const auto* targets = reinterpret_cast<const int32_t*>(call.operands[1]);
    const int64_t panels = math.slices().panels, bytes = size_in_bytes(loss_.dtype);
    PairwiseStack total(fold_ops(FoldKind::kSumF));
    StopMeter meter(call);
    for (int64_t i = panels * lane / lanes(); i < panels * (lane + 1) / lanes(); ++i) {
      const Panel x = math.panel(call.operands[0], i, call.scratch, 0);
      float *largest = math.statistic(call.scratch, 0), *log_sum = math.statistic(call.scratch, 1);
      float* plain_sum = math.statistic(call.scratch, 2);
      if (loss_.has_softmax) {
        math.maximum(x, largest);
        math.sum_of_exp(x, largest, call.scratch, log_sum);
        math.ops().compute[static_cast<size_t>(OpCode::kLogF)](
            {.count = static_cast<size_t>(x.columns), .result = log_sum, .a = log_sum});
        if (loss_.smoothing != 0.0f) math.sum(x, call.scratch, plain_sum);
      }
      for (int64_t c = 0; c < x.columns; ++c) {
        const int64_t at = loss_.first_target(i) + c;
        const int32_t k = loss_.target_class(targets, at, call.fault);
        float value = 0.0f;
        if (k >= 0)
          value = loss_.has_softmax ? cross_entropy(x, k, c, largest[c], log_sum[c], plain_sum[c])
                                    : -x.data[k * x.stride + c];
        if (loss_.reduction == LossReduction::kNone)
          write_float(call.results[0] + at * bytes, loss_.dtype, value);
        else
          total.push(bits_of(value));
      }
      if (meter.stops(loss_.nanoseconds(x.columns))) return;
    }
    if (loss_.reduction == LossReduction::kNone) return;
    const uint32_t bits = total.finish();
    float value;
    std::memcpy(&value, &bits, 4);
    if (loss_.reduction == LossReduction::kMean) value /= loss_.counted(targets, meter);
    write_float(call.results[0], loss_.dtype, value);
  }

 private:
  static uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
  }
  float cross_entropy(const Panel& x, int32_t k, int64_t column, float largest, float log_sum,
                      float plain_sum) const {
    const float own = log_sum - (x.data[k * x.stride + column] - largest);
    if (loss_.smoothing == 0.0f) return own;
    // -sum of the log-probabilities over all classes
    const auto n = static_cast<float>(loss_.classes());
    const float all = n * log_sum - (plain_sum - n * largest);
    return (1.0f - loss_.smoothing) * own + loss_.smoothing / n * all;
  }

  Loss loss_;
};

class LossGradientKernel final : public PreparedKernel {
 public:
  explicit LossGradientKernel(Loss loss) : loss_(std::move(loss)) {}
  int lanes() const override { return loss_.math.slices().lanes; }
  int64_t scratch_bytes() const override { return loss_.math.scratch_bytes(2); }

  void run(const KernelCall& call, int lane) const override {
    const SliceMath& math = loss_.math;
    const BlockOps& ops = math.ops();
    const auto* targets = reinterpret_cast<const int32_t*>(call.operands[2]);
    const int64_t panels = math.slices().panels, bytes = size_in_bytes(loss_.dtype);
    float shared = 0.0f;
    StopMeter meter(call);
    if (loss_.reduction != LossReduction::kNone) shared = read_float(call.operands[0], loss_.dtype);
    if (loss_.reduction == LossReduction::kMean) shared /= loss_.counted(targets, meter);
    const auto multiply = ops.compute[static_cast<size_t>(OpCode::kMulF)],
               subtract = ops.compute[static_cast<size_t>(OpCode::kSubF)];
    for (int64_t i = panels * lane / lanes(); i < panels * (lane + 1) / lanes(); ++i) {
      const Panel out = math.panel(call.results[0], i, call.scratch, 1, true);
      float *largest = math.statistic(call.scratch, 0), *sum = math.statistic(call.scratch, 1);
      float *upstream = math.statistic(call.scratch, 2), *factor = math.statistic(call.scratch, 3);
      const int64_t first = loss_.first_target(i);
      for (int64_t c = 0; c < out.columns; ++c) {
        const bool counts = loss_.target_class(targets, first + c, call.fault) >= 0;
        upstream[c] = !counts ? 0.0f
                      : loss_.reduction == LossReduction::kNone
                          ? read_float(call.operands[0] + (first + c) * bytes, loss_.dtype)
                          : shared;
      }
      if (loss_.has_softmax) {
        const Panel x = math.panel(call.operands[1], i, call.scratch, 0);
        math.maximum(x, largest);
        math.apply(ops.exp_difference, out, x, largest, call.scratch);
        math.sum(out, call.scratch, sum);
        for (int64_t c = 0; c < out.columns; ++c) factor[c] = upstream[c] / sum[c];
        math.apply(multiply, out, out, factor, call.scratch);
        if (loss_.smoothing != 0.0f) {
          for (int64_t c = 0; c < out.columns; ++c)
            factor[c] = upstream[c] * (loss_.smoothing / static_cast<float>(loss_.classes()));
          math.apply(subtract, out, out, factor, call.scratch);
        }
      } else {
        for (int64_t r = 0; r < (out.is_row() ? 1 : out.rows); ++r)
          std::fill_n(out.data + r * out.stride, out.is_row() ? out.rows : out.columns, 0.0f);
      }
      for (int64_t c = 0; c < out.columns; ++c) {
        const int32_t k = loss_.target_class(targets, first + c, nullptr);
        if (k >= 0) out.data[k * out.stride + c] -= (1.0f - loss_.smoothing) * upstream[c];
      }
      math.store(out, call.results[0], i);
      if (meter.stops(loss_.nanoseconds(out.columns))) return;
    }
  }

 private:
  Loss loss_;
};

// A loss has operands x, target and a result of one element or one for each target; its gradient has that
// first, and a result like x. nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <bool kSoftmax, bool kGradient>
std::optional<Loss> plan_loss(const KernelRequest& request) {
  if (request.operands.size() != (kGradient ? 3 : 2) || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[kGradient ? 1 : 0], &target = request.operands[kGradient ? 2 : 1];
  const TensorSpec& loss_value = kGradient ? request.operands[0] : request.results[0];
  if (!(x.dtype == DType::kF32 || x.dtype == DType::kF16) || target.dtype != DType::kI32 ||
      !target.is_contiguous() || loss_value.dtype != x.dtype || !loss_value.is_contiguous())
    return std::nullopt;
  const std::optional<LossReduction> reduction = loss_reduction(text_of(request, "reduction", "mean"));
  const std::optional<Slices> slices = slices_of(x, x.shape.size() == 1 ? 0 : 1);
  if (!reduction || !slices || x.shape.empty()) return std::nullopt;
  const int64_t targets = slices->outer * slices->inner;
  if (element_count(target.shape) != targets ||
      element_count(loss_value.shape) != (*reduction == LossReduction::kNone ? targets : 1))
    return std::nullopt;
  if constexpr (kGradient) {
    const TensorSpec& dx = request.results[0];
    if (dx.layout != x.layout || dx.shape != x.shape || dx.dtype != x.dtype ||
        (x.layout.is_plain() && !dx.is_contiguous()))
      return std::nullopt;
  }
  return Loss{.math = SliceMath(*slices, x.dtype),
              .dtype = x.dtype,
              .has_softmax = kSoftmax,
              .reduction = *reduction,
              .ignore_index = static_cast<int32_t>(integer_of(request, "ignore_index", -100)),
              .smoothing = kSoftmax ? static_cast<float>(real_of(request, "label_smoothing", 0.0)) : 0.0f};
}

template <bool kSoftmax, bool kGradient>
std::unique_ptr<PreparedKernel> prepare_loss(const KernelRequest& request) {
  std::optional<Loss> loss = plan_loss<kSoftmax, kGradient>(request);
  if (!loss) return nullptr;
  if constexpr (kGradient)
    return std::make_unique<LossGradientKernel>(std::move(*loss));
  else
    return std::make_unique<LossKernel>(std::move(*loss));
}

template <bool kSoftmax, bool kGradient>
Footprint footprint_of_loss(const KernelRequest& request) {
  require_counts(request, kGradient ? 3 : 2, 1);
  require_sound(request);
  require(plan_loss<kSoftmax, kGradient>(request).has_value(),
          "has no loss's shapes, strides, types or attributes");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("nll_loss", (prepare_loss<false, false>), (footprint_of_loss<false, false>));
IPU_REGISTER_KERNEL("nll_loss_gradient", (prepare_loss<false, true>), (footprint_of_loss<false, true>));
IPU_REGISTER_KERNEL("cross_entropy", (prepare_loss<true, false>), (footprint_of_loss<true, false>));
IPU_REGISTER_KERNEL("cross_entropy_gradient", (prepare_loss<true, true>), (footprint_of_loss<true, true>));

}  // namespace
}  // namespace ipu::kernels
