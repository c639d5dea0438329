// Kernel "bucketize" (x, boundaries [n]) {right}: the place of each element of x among the boundaries, by
// halving [0, n) as torch does. That gives torch's answer for boundaries that are not sorted, too.
#include <algorithm>

#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

class BucketizeKernel final : public PreparedKernel {
 public:
  BucketizeKernel(DType dtype, int64_t count, int64_t boundaries, bool right)
      : dtype_(dtype),
        count_(count),
        boundaries_(boundaries),
        right_(right),
        lanes_(std::max(1, lanes_for_elements(count * 8))) {}
  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    auto* result = reinterpret_cast<int32_t*>(call.results[0]);
    with_ordered(dtype_, [&]<class T>(T) {
      const auto* x = reinterpret_cast<const T*>(call.operands[0]);
      const auto* boundaries = reinterpret_cast<const T*>(call.operands[1]);
      for (int64_t i = count_ * lane / lanes_; i < count_ * (lane + 1) / lanes_; ++i)
        result[i] = static_cast<int32_t>(place(boundaries, x[i]));
    });
  }

 private:
  template <class T>
  int64_t place(const T* boundaries, T value) const {
    int64_t first = 0, end = boundaries_;
    while (first < end) {
      const int64_t middle = first + (end - first) / 2;
      const bool is_left = right_ ? boundaries[middle] > value : boundaries[middle] >= value;
      (is_left ? end : first) = is_left ? middle : middle + 1;
    }
    return first;
  }

  DType dtype_;
  int64_t count_, boundaries_;
  bool right_;
  int lanes_;
};

bool fits(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &boundaries = request.operands[1], &y = request.results[0];
  const auto is_dense = [](const TensorSpec& spec) { return spec.layout.is_plain() && spec.is_contiguous(); };
  return is_dense(x) && is_dense(boundaries) && is_dense(y) && x.dtype == boundaries.dtype &&
         y.dtype == DType::kI32 && x.shape == y.shape && boundaries.shape.size() == 1 &&
         boundaries.shape[0] <= INT32_MAX && with_ordered(x.dtype, [](auto) {});
}

std::unique_ptr<PreparedKernel> prepare_bucketize(const KernelRequest& request) {
  if (!fits(request)) return nullptr;
  return std::make_unique<BucketizeKernel>(request.operands[0].dtype, element_count(request.results[0].shape),
                                           request.operands[1].shape[0],
                                           request.attributes.boolean("right", false));
}

Footprint footprint_of_bucketize(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  Footprint footprint = footprint_of_views(request);
  require(fits(request), "has operands of other types or shapes than bucketize takes");
  boolean_of(request, "right", false);
  return footprint;
}

IPU_REGISTER_KERNEL("bucketize", prepare_bucketize, footprint_of_bucketize);

}  // namespace
}  // namespace ipu::kernels
