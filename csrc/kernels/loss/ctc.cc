// Kernels "ctc_loss" (log_probs [T, N, C], targets [N, S], input_lengths [N], target_lengths [N]) and
// "ctc_loss_gradient" (dy [N], then the same) {blank}. Lanes are samples.
#include "kernels/loss/ctc.h"

#include <optional>
#include <utility>

#include "kernels/footprint.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"
#include "support/checked.h"

namespace ipu::kernels {
namespace {

struct CtcPlan {
  int64_t times = 0, samples = 0, classes = 0, labels = 0, blank = 0;

  int64_t states() const { return 2 * labels + 1; }
  int64_t sample_nanoseconds() const { return 64 * times * states(); }
};

class CtcKernel : public PreparedKernel {
 public:
  explicit CtcKernel(const CtcPlan& plan)
      : plan_(plan),
        lane_count_(
            static_cast<int>(std::clamp<int64_t>(lanes_for_elements(plan.sample_nanoseconds() * plan.samples),
                                                 1, std::max<int64_t>(plan.samples, 1)))) {}
  int lanes() const override { return lane_count_; }
  // alpha, two rows of beta, the labels of a sample
  int64_t scratch_bytes() const override {
    return (plan_.times + 2) * plan_.states() * static_cast<int64_t>(sizeof(double)) +
           plan_.labels * static_cast<int64_t>(sizeof(int32_t));
  }

 protected:
  double* alpha(const KernelCall& call) const { return reinterpret_cast<double*>(call.scratch); }
  double* beta(const KernelCall& call) const { return alpha(call) + plan_.times * plan_.states(); }

  // Lengths and labels out of range are reported; the sample then counts as having no time at all. Labels are
  // kept in scratch as they were checked.
  CtcSample sample(const KernelCall& call, size_t first, int64_t n) const {
    const IndexOperand times = index_operand(call, first + 1, plan_.times + 1),
                       labels = index_operand(call, first + 2, plan_.labels + 1),
                       targets = index_operand(call, first, plan_.classes);
    auto* const kept = reinterpret_cast<int32_t*>(beta(call) + 2 * plan_.states());
    const CtcSample s{times.at(n), labels.at(n), plan_.blank, kept}, nothing{0, 0, plan_.blank, kept};
    if (s.times < 0 || s.labels < 0) return nothing;
    for (int64_t k = 0; k < s.labels; ++k) {
      const int64_t label = targets.at(n * plan_.labels + k);
      if (label < 0) return nothing;
      kept[k] = static_cast<int32_t>(label);
    }
    return s;
  }
  auto reader(const KernelCall& call, size_t operand, int64_t n) const {
    const auto* x = reinterpret_cast<const float*>(call.operands[operand]) + n * plan_.classes;
    const int64_t step = plan_.samples * plan_.classes;
    return [x, step](int64_t t, int64_t label) { return static_cast<double>(x[t * step + label]); };
  }
  static auto asking(StopMeter& meter) {
    return [&meter](int64_t states) { return meter.stops(64 * states); };
  }
  std::pair<int64_t, int64_t> range(int lane) const {
    return {plan_.samples * lane / lane_count_, plan_.samples * (lane + 1) / lane_count_};
  }

  const CtcPlan plan_;

 private:
  const int lane_count_;
};

class CtcLossKernel final : public CtcKernel {
 public:
  using CtcKernel::CtcKernel;
  void run(const KernelCall& call, int lane) const override {
    const auto [first, last] = range(lane);
    StopMeter meter(call);
    for (int64_t n = first; n < last; ++n) {
      reinterpret_cast<float*>(call.results[0])[n] =
          static_cast<float>(ctc_forward(sample(call, 1, n), alpha(call), reader(call, 0, n), asking(meter)));
      if (meter.stops(plan_.labels)) return;
    }
  }
};

class CtcGradientKernel final : public CtcKernel {
 public:
  using CtcKernel::CtcKernel;
  void run(const KernelCall& call, int lane) const override {
    const auto [first, last] = range(lane);
    const int64_t samples = plan_.samples, classes = plan_.classes;
    auto* result = reinterpret_cast<float*>(call.results[0]);
    StopMeter meter(call);
    for (int64_t n = first; n < last; ++n) {
      for (int64_t t = 0; t < plan_.times; ++t) {
        std::fill_n(result + (t * samples + n) * classes, classes, 0.0f);
        if (meter.stops(classes)) return;
      }
      const double dy = static_cast<double>(reinterpret_cast<const float*>(call.operands[0])[n]);
      if (dy == 0.0) continue;  // also where the loss is infinite and nobody wants it
      const CtcSample s = sample(call, 2, n);
      const auto log_probability = reader(call, 1, n);
      const double loss = ctc_forward(s, alpha(call), log_probability, asking(meter));
      ctc_shares(
          s, alpha(call), loss, beta(call), log_probability,
          [&](int64_t t, int64_t label, double share) {
            float& to = result[(t * samples + n) * classes + label];
            to = static_cast<float>(static_cast<double>(to) - dy * share);
          },
          asking(meter));
      if (meter.stops(plan_.labels)) return;
    }
  }
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <bool kGradient>
std::optional<CtcPlan> plan_of(const KernelRequest& request) {
  constexpr size_t kFirst = kGradient ? 1 : 0;
  constexpr int64_t kMostWork = int64_t{1} << 50;
  if (request.operands.size() != kFirst + 4 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[kFirst], &targets = request.operands[kFirst + 1];
  const TensorSpec &y = request.results[0], &loss = kGradient ? request.operands[0] : y;
  for (size_t i = kFirst + 1; i < request.operands.size(); ++i)
    if (!is_index(request.operands[i])) return std::nullopt;
  if (x.shape.size() != 3 || targets.shape.size() != 2) return std::nullopt;
  const CtcPlan plan{x.shape[0], x.shape[1], x.shape[2], targets.shape[1], integer_of(request, "blank", 0)};
  const Shape one_each{plan.samples};
  for (const TensorSpec* spec : {&x, &loss, &y})
    if (spec->dtype != DType::kF32 || !spec->is_contiguous()) return std::nullopt;
  if (targets.shape[0] != plan.samples || request.operands[kFirst + 2].shape != one_each ||
      request.operands[kFirst + 3].shape != one_each || loss.shape != one_each)
    return std::nullopt;
  if (kGradient && y.shape != x.shape) return std::nullopt;
  if (plan.blank < 0 || plan.blank >= plan.classes) return std::nullopt;
  if ((Checked(plan.times) + 2) * (Checked(plan.labels) * 2 + 1) * std::max<int64_t>(plan.samples, 1) >
      kMostWork)
    return std::nullopt;
  return plan;
}

template <class Kernel, bool kGradient>
std::unique_ptr<PreparedKernel> prepare_ctc(const KernelRequest& request) {
  const std::optional<CtcPlan> plan = plan_of<kGradient>(request);
  if (!plan) return nullptr;
  return std::make_unique<Kernel>(*plan);
}

template <bool kGradient>
Footprint footprint_of_ctc(const KernelRequest& request) {
  require_counts(request, kGradient ? 5 : 4, 1);
  require_sound(request);
  require(plan_of<kGradient>(request).has_value(), "has no CTC loss's shapes, strides, types or blank");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("ctc_loss", (prepare_ctc<CtcLossKernel, false>), footprint_of_ctc<false>);
IPU_REGISTER_KERNEL("ctc_loss_gradient", (prepare_ctc<CtcGradientKernel, true>), footprint_of_ctc<true>);

}  // namespace
}  // namespace ipu::kernels
