// Kernel "farthest_points" (src [n, d], seed u32[2]) {ptr, counts, stream_id}: counts[b] samples of the rows
// [ptr[b], ptr[b + 1]). The first one of a batch is its first row, or with a seed a random one. Lanes are
// batches.
#include <algorithm>
#include <numeric>

#include "kernels/footprint.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/point_cloud/points.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/random/random_fill.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

// An absent operand at the end is left out.
bool has_seed(const KernelRequest& request) { return request.operands.size() == 2 && !request.is_absent(1); }

class FarthestPointsKernel final : public PreparedKernel {
 public:
  FarthestPointsKernel(const KernelRequest& request, std::vector<int64_t> ptr,
                       const std::vector<int64_t>& counts)
      : dtype_(request.operands[0].dtype),
        dimensions_(request.operands[0].shape[1]),
        is_random_(has_seed(request)),
        stream_(request.attributes.integer("stream_id", 0)),
        ptr_(std::move(ptr)) {
    places_.push_back(0);
    int64_t work = 0;
    for (size_t b = 0; b < counts.size(); ++b) {
      places_.push_back(places_.back() + counts[b]);
      largest_ = std::max(largest_, ptr_[b + 1] - ptr_[b]);
      work += counts[b] * (ptr_[b + 1] - ptr_[b]) * (dimensions_ + 1);
    }
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes_for_elements(work), 1, std::max<int64_t>(std::ssize(counts), 1)));
  }
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return largest_ * static_cast<int64_t>(sizeof(double)); }

  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    const int64_t batches = std::ssize(places_) - 1;
    with_ordered(dtype_, [&]<class T>(T) {
      const auto x = [points = reinterpret_cast<const T*>(call.operands[0]), d = dimensions_](
                         int64_t p, int64_t i) { return static_cast<double>(points[p * d + i]); };
      for (int64_t b = batches * lane / lanes_; b < batches * (lane + 1) / lanes_; ++b)
        if (!sample_batch(meter, call, static_cast<size_t>(b), x)) return;
    });
  }

 private:
  // False when the meter stopped it.
  template <class X>
  bool sample_batch(StopMeter& meter, const KernelCall& call, size_t b, X x) const {
    const int64_t first = ptr_[b], end = ptr_[b + 1];
    auto* result = reinterpret_cast<int32_t*>(call.results[0]) + places_[b];
    bool goes_on = !meter.stops(end - first + 1);
    if (!goes_on || places_[b] == places_[b + 1]) return goes_on;
    const int64_t start = is_random_ ? random_start(random_stream(call.operands[1], stream_),
                                                    static_cast<int64_t>(b), first, end)
                                     : first;
    farthest_points(x, first, end, dimensions_, start, places_[b + 1] - places_[b],
                    reinterpret_cast<double*>(call.scratch), [&](int64_t sample) {
                      *result++ = static_cast<int32_t>(sample);
                      return goes_on = !meter.stops((end - first) * (dimensions_ + 1));
                    });
    return goes_on;
  }

  DType dtype_;
  int64_t dimensions_;
  bool is_random_;
  int64_t stream_;
  std::vector<int64_t> ptr_, places_;
  int64_t largest_ = 0;
  int lanes_ = 1;
};

bool is_dense(const TensorSpec& spec) { return spec.layout == Layout::kPlain && spec.is_contiguous(); }

bool fits(const KernelRequest& request, const std::vector<int64_t>& ptr, const std::vector<int64_t>& counts) {
  if (request.operands.empty() || request.operands.size() > 2 || request.results.size() != 1) return false;
  const TensorSpec &x = request.operands[0], &result = request.results[0];
  if (!is_dense(x) || !is_dense(result) || result.dtype != DType::kI32 || x.shape.size() != 2) return false;
  if (x.dtype != DType::kF32 && x.dtype != DType::kF16) return false;
  if (x.shape[0] > INT32_MAX || x.shape[1] > INT32_MAX) return false;
  if (ptr.size() != counts.size() + 1 || ptr.front() < 0 || ptr.back() > x.shape[0]) return false;
  int64_t samples = 0;
  for (size_t b = 0; b < counts.size(); ++b) {
    if (ptr[b + 1] < ptr[b] || counts[b] < 0 || counts[b] > ptr[b + 1] - ptr[b]) return false;
    if (ptr[b + 1] > x.shape[0]) return false;
    samples += counts[b];
  }
  constexpr int64_t kMostWork = int64_t{1} << 60;
  if (Checked(samples) * x.shape[0] * (Checked(x.shape[1]) + 1) > kMostWork) return false;
  if (result.shape != Shape{samples}) return false;
  if (!has_seed(request)) return true;
  const TensorSpec& seed = request.operands[1];
  return seed.dtype == DType::kU32 && seed.shape == Shape{2} && is_dense(seed);
}

std::unique_ptr<PreparedKernel> prepare_farthest_points(const KernelRequest& request) {
  const std::vector<int64_t>&ptr = request.attributes.integers("ptr"),
        &counts = request.attributes.integers("counts");
  if (!fits(request, ptr, counts)) return nullptr;
  return std::make_unique<FarthestPointsKernel>(request, ptr, counts);
}

Footprint footprint_of_farthest_points(const KernelRequest& request) {
  require_counts(request, 1, 2, 1);
  require_sound(request);
  integer_of(request, "stream_id", 0);
  require(fits(request, integers_of(request, "ptr"), integers_of(request, "counts")),
          "has no points' shapes, strides, types or batches");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("farthest_points", prepare_farthest_points, footprint_of_farthest_points);

}  // namespace
}  // namespace ipu::kernels
