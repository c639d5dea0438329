// Kernel "stochastic_round": f32 → f16, each element with random bits of its own (random_fill.h).
#include <algorithm>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/random/random_fill.h"
#include "kernels/random/stochastic_half.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kBlock = 2048;  // elements; lanes are cut at blocks
constexpr int64_t kCost = 4;      // of an element, for the stop meter

class StochasticRound final : public PreparedKernel {
 public:
  explicit StochasticRound(const KernelRequest& request)
      : count_(element_count(request.results[0].shape)),
        stream_(request.attributes.integer("stream_id", 0)),
        blocks_((count_ + kBlock - 1) / kBlock),
        lanes_(
            static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(lanes_for_elements(count_), blocks_)))) {}
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return kBlock * 4; }

  void run(const KernelCall& call, int lane) const override {
    const RandomStream stream = random_stream(call.operands[1], stream_);
    auto* bits = reinterpret_cast<uint32_t*>(call.scratch);
    const auto* x = reinterpret_cast<const float*>(call.operands[0]);
    auto* y = reinterpret_cast<uint16_t*>(call.results[0]);
    const int64_t last = std::min(blocks_ * (lane + 1) / lanes_ * kBlock, count_);
    StopMeter meter(call);
    for (int64_t i = blocks_ * lane / lanes_ * kBlock; i < last; i += kBlock) {
      const int64_t n = std::min(kBlock, last - i);
      if (meter.stops(n * kCost)) return;
      random_fill().bits(stream, i, n, bits);
      for (int64_t k = 0; k < n; ++k) y[i + k] = stochastic_half(x[i + k], bits[k]);
    }
  }

 private:
  int64_t count_, stream_, blocks_;
  int lanes_;
};

bool can_round(const TensorSpec& x, const TensorSpec& seed, const TensorSpec& y) {
  return x.is_contiguous() && y.is_contiguous() && x.dtype == DType::kF32 && y.dtype == DType::kF16 &&
         seed.dtype == DType::kU32 && seed.shape == Shape{2} && seed.is_contiguous();
}

std::unique_ptr<PreparedKernel> prepare_stochastic_round(const KernelRequest& request) {
  if (!can_round(request.operands[0], request.operands[1], request.results[0])) return nullptr;
  return std::make_unique<StochasticRound>(request);
}

Footprint footprint_of_stochastic_round(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_round(x, request.operands[1], y), "rounds types or layouts it cannot");
  require(element_count(x.shape) == element_count(y.shape), "has a result of another size than its operand");
  integer_of(request, "stream_id", 0);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("stochastic_round", prepare_stochastic_round, footprint_of_stochastic_round);

}  // namespace
}  // namespace ipu::kernels
