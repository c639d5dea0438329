// Kernels "ctc_loss" (log_probs [T, N, C], targets [N, S], input_lengths [N], target_lengths [N]) and
// "ctc_loss_gradient" (dy [N], then the same) {blank}. Lanes are samples.
#include "kernels/loss/ctc.h"

#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

class CtcKernel : public PreparedKernel {
 public:
  int64_t times = 0, samples = 0, classes = 0, labels = 0, blank = 0;
  int lane_count = 1;

  int lanes() const override { return lane_count; }
  // alpha, two rows of beta
  int64_t scratch_bytes() const override {
    return (times + 2) * (2 * labels + 1) * static_cast<int64_t>(sizeof(double));
  }

 protected:
  // Lengths and labels out of range are reported; the sample then counts as having no time at all.
  CtcSample sample(const KernelCall& call, size_t first, int64_t n) const {
    const auto* target = reinterpret_cast<const int32_t*>(call.operands[first]) + n * labels;
    const IndexOperand checked_times = index_operand(call, first + 1, times + 1),
                       checked_labels = index_operand(call, first + 2, labels + 1);
    CtcSample s{checked_times.at(n), checked_labels.at(n), blank, target};
    if (s.times < 0 || s.labels < 0) return {0, 0, blank, target};
    const IndexOperand checked_target = index_operand(call, first, classes);
    for (int64_t k = 0; k < s.labels; ++k)
      if (checked_target.at(n * labels + k) < 0) return {0, 0, blank, target};
    return s;
  }
  auto reader(const KernelCall& call, size_t operand, int64_t n) const {
    const auto* x = reinterpret_cast<const float*>(call.operands[operand]) + n * classes;
    const int64_t step = samples * classes;
    return [x, step](int64_t t, int64_t label) { return static_cast<double>(x[t * step + label]); };
  }
  std::pair<int64_t, int64_t> range(int lane) const {
    return {samples * lane / lane_count, samples * (lane + 1) / lane_count};
  }
};

class CtcLossKernel final : public CtcKernel {
 public:
  void run(const KernelCall& call, int lane) const override {
    const auto [first, last] = range(lane);
    for (int64_t n = first; n < last; ++n)
      reinterpret_cast<float*>(call.results[0])[n] = static_cast<float>(
          ctc_forward(sample(call, 1, n), reinterpret_cast<double*>(call.scratch), reader(call, 0, n)));
  }
};

class CtcGradientKernel final : public CtcKernel {
 public:
  void run(const KernelCall& call, int lane) const override {
    const auto [first, last] = range(lane);
    auto* result = reinterpret_cast<float*>(call.results[0]);
    auto* alpha = reinterpret_cast<double*>(call.scratch);
    double* beta = alpha + times * (2 * labels + 1);
    for (int64_t n = first; n < last; ++n) {
      for (int64_t t = 0; t < times; ++t) std::fill_n(result + (t * samples + n) * classes, classes, 0.0f);
      const double dy = static_cast<double>(reinterpret_cast<const float*>(call.operands[0])[n]);
      if (dy == 0.0) continue;  // also where the loss is infinite and nobody wants it
      const CtcSample s = sample(call, 2, n);
      const auto log_probability = reader(call, 1, n);
      const double loss = ctc_forward(s, alpha, log_probability);
      ctc_shares(s, alpha, loss, beta, log_probability, [&](int64_t t, int64_t label, double share) {
        float& to = result[(t * samples + n) * classes + label];
        to = static_cast<float>(static_cast<double>(to) - dy * share);
      });
    }
  }
};

template <class Kernel>
std::unique_ptr<PreparedKernel> prepare_ctc(const KernelRequest& request) {
  const size_t first = request.operands.size() - 4;
  const TensorSpec &x = request.operands[first], &targets = request.operands[first + 1];
  for (const TensorSpec& spec : request.operands)
    if (!spec.is_contiguous()) return nullptr;
  for (size_t i = first + 1; i < request.operands.size(); ++i)
    if (!is_index(request.operands[i])) return nullptr;
  if (x.dtype != DType::kF32 || !request.results[0].is_contiguous()) return nullptr;
  auto kernel = std::make_unique<Kernel>();
  kernel->times = x.shape[0];
  kernel->samples = x.shape[1];
  kernel->classes = x.shape[2];
  kernel->labels = targets.shape[1];
  kernel->blank = request.attributes.integer("blank", 0);
  const int64_t work = 64 * kernel->times * (2 * kernel->labels + 1) * kernel->samples;
  kernel->lane_count = static_cast<int>(
      std::clamp<int64_t>(lanes_for_elements(work), 1, std::max<int64_t>(kernel->samples, 1)));
  return kernel;
}

IPU_REGISTER_KERNEL("ctc_loss", prepare_ctc<CtcLossKernel>);
IPU_REGISTER_KERNEL("ctc_loss_gradient", prepare_ctc<CtcGradientKernel>);

}  // namespace
}  // namespace ipu::kernels
