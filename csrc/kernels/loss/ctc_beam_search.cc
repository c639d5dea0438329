// Kernel "ctc_beam_search" (log_probs [T, N, C], lengths [N]) {blank, beam_width}: log-probabilities [N, P],
// lengths [N, P] and labels [N, P, T] of the P best targets. Lanes are samples.
#include <optional>

#include "kernels/footprint.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/loss/ctc_beam.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

class CtcBeamKernel final : public PreparedKernel {
 public:
  CtcBeamKernel(const CtcBeamPlan& plan, int64_t samples, int64_t paths)
      : plan_(plan),
        samples_(samples),
        paths_(paths),
        lane_count_(static_cast<int>(
            std::clamp<int64_t>(lanes_for_elements(kCost * samples * plan.times * plan.width * plan.classes),
                                1, std::max<int64_t>(samples, 1)))) {}
  int lanes() const override { return lane_count_; }
  int64_t scratch_bytes() const override { return CtcBeamSearch::scratch_bytes(plan_); }

  void run(const KernelCall& call, int lane) const override {
    const IndexOperand lengths = index_operand(call, 1, plan_.times + 1);
    StopMeter meter(call);
    CtcBeamSearch search(plan_, call.scratch);
    for (int64_t n = samples_ * lane / lane_count_; n < samples_ * (lane + 1) / lane_count_; ++n) {
      const auto* x = reinterpret_cast<const float*>(call.operands[0]) + n * plan_.classes;
      const int64_t step = samples_ * plan_.classes;
      const auto read = [x, step](int64_t t, int64_t label) {
        return static_cast<double>(x[t * step + label]);
      };
      // A length out of range is reported; the sample then counts as having no time at all.
      const int64_t times = std::max<int64_t>(lengths.at(n), 0);
      if (!search.run(times, read, [&](int64_t work) { return meter.stops(kCost * work); })) return;
      if (!store(call, search, n, meter)) return;
    }
  }

 private:
  static constexpr int64_t kCost = 16;  // of a beam and class

  bool store(const KernelCall& call, const CtcBeamSearch& search, int64_t n, StopMeter& meter) const {
    for (int64_t p = 0; p < paths_; ++p) {
      if (meter.stops(2 * plan_.times + 1)) return false;
      const int64_t at = n * paths_ + p;
      const bool is_there = p < search.count();
      auto* labels = reinterpret_cast<int32_t*>(call.results[2]) + at * plan_.times;
      std::fill_n(labels, plan_.times, static_cast<int32_t>(plan_.blank));
      reinterpret_cast<float*>(call.results[0])[at] =
          is_there ? static_cast<float>(search.log_probability(p)) : -std::numeric_limits<float>::infinity();
      reinterpret_cast<int32_t*>(call.results[1])[at] = is_there ? static_cast<int32_t>(search.length(p)) : 0;
      if (is_there) search.labels(p, [&](int64_t place, int32_t label) { labels[place] = label; });
    }
    return true;
  }

  const CtcBeamPlan plan_;
  const int64_t samples_, paths_;
  const int lane_count_;
};

struct Request {
  CtcBeamPlan plan;
  int64_t samples, paths;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
std::optional<Request> request_of(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 3) return std::nullopt;
  const TensorSpec &x = request.operands[0], &lengths = request.operands[1];
  const TensorSpec &scores = request.results[0], &counts = request.results[1], &labels = request.results[2];
  if (x.shape.size() != 3 || scores.shape.size() != 2 || !is_index(lengths)) return std::nullopt;
  const CtcBeamPlan plan{x.shape[0], x.shape[2], integer_of(request, "blank", 0),
                         integer_of(request, "beam_width", 100)};
  const int64_t samples = x.shape[1], paths = scores.shape[1];
  if (plan.blank < 0 || plan.blank >= plan.classes || plan.width < 1 || paths < 1 || paths > plan.width)
    return std::nullopt;
  for (const TensorSpec* spec : {&x, &scores})
    if (spec->dtype != DType::kF32 || !spec->is_contiguous()) return std::nullopt;
  for (const TensorSpec* spec : {&counts, &labels})
    if (!is_index(*spec)) return std::nullopt;
  if (lengths.shape != Shape{samples} || scores.shape != Shape{samples, paths} ||
      counts.shape != scores.shape || labels.shape != Shape{samples, paths, plan.times})
    return std::nullopt;
  constexpr int64_t kMostWork = int64_t{1} << 50;
  if (plan.classes > INT32_MAX || (Checked(plan.times) + 1) * plan.width >= int64_t{1} << 30 ||
      (Checked(plan.times) + 1) * plan.width * plan.classes * (Checked(samples) + 1) > kMostWork)
    return std::nullopt;
  return Request{plan, samples, paths};
}

std::unique_ptr<PreparedKernel> prepare_ctc_beam_search(const KernelRequest& request) {
  const std::optional<Request> known = request_of(request);
  if (!known) return nullptr;
  return std::make_unique<CtcBeamKernel>(known->plan, known->samples, known->paths);
}

Footprint footprint_of_ctc_beam_search(const KernelRequest& request) {
  require_counts(request, 2, 3);
  require_sound(request);
  require(request_of(request).has_value(), "has no beam search's shapes, strides, types, blank or width");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("ctc_beam_search", prepare_ctc_beam_search, footprint_of_ctc_beam_search);

}  // namespace
}  // namespace ipu::kernels
