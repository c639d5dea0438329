// Kernel "nearest" (x [n, d], y [m, d], batch_x [n], batch_y [m]): for each row of x the nearest row of y of
// the same batch; without batches all are one. Lanes are rows of x.
#include <algorithm>

#include "kernels/footprint.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/point_cloud/points.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

class NearestKernel final : public PreparedKernel {
 public:
  NearestKernel(DType dtype, int64_t rows, int64_t points, int64_t dimensions, bool has_batches)
      : dtype_(dtype),
        rows_(rows),
        points_(points),
        dimensions_(dimensions),
        has_batches_(has_batches),
        lanes_(static_cast<int>(
            std::clamp<int64_t>(lanes_for_elements(rows * row_cost()), 1, std::max<int64_t>(rows, 1)))) {}
  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    auto* result = reinterpret_cast<int32_t*>(call.results[0]);
    const auto batches = [&](size_t operand) {
      return has_batches_ ? reinterpret_cast<const int32_t*>(call.operands[operand]) : nullptr;
    };
    const int32_t *batch_x = batches(2), *batch_y = batches(3);
    StopMeter meter(call);
    with_ordered(dtype_, [&]<class T>(T) {
      const auto coordinates = [&](size_t operand) {
        return [x = reinterpret_cast<const T*>(call.operands[operand]), d = dimensions_](
                   int64_t p, int64_t i) { return static_cast<double>(x[p * d + i]); };
      };
      const auto x = coordinates(0), y = coordinates(1);
      for (int64_t a = rows_ * lane / lanes_; a < rows_ * (lane + 1) / lanes_; ++a) {
        bool is_stopped = meter.stops(1);
        const auto may = [&](int64_t b) {
          if (is_stopped || (is_stopped = meter.stops(dimensions_ + 1))) return false;
          return batch_x == nullptr || batch_x[a] == batch_y[b];
        };
        result[a] = static_cast<int32_t>(nearest_point(x, a, y, points_, dimensions_, may));
        if (is_stopped) return;
      }
    });
  }

 private:
  int64_t row_cost() const { return 1 + points_ * (dimensions_ + 1); }

  DType dtype_;
  int64_t rows_, points_, dimensions_;
  bool has_batches_;
  int lanes_;
};

bool is_dense(const TensorSpec& spec) { return spec.layout == Layout::kPlain && spec.is_contiguous(); }

// Absent operands at the end are left out.
bool has_batches(const KernelRequest& request) { return request.operands.size() == 4; }

bool fits(const KernelRequest& request) {
  if ((request.operands.size() != 2 && !has_batches(request)) || request.results.size() != 1) return false;
  const TensorSpec &x = request.operands[0], &y = request.operands[1], &result = request.results[0];
  if (!is_dense(x) || !is_dense(y) || !is_dense(result) || x.dtype != y.dtype || result.dtype != DType::kI32)
    return false;
  if (x.dtype != DType::kF32 && x.dtype != DType::kF16) return false;
  if (x.shape.size() != 2 || y.shape.size() != 2 || x.shape[1] != y.shape[1]) return false;
  if (result.shape != Shape{x.shape[0]} || y.shape[0] > INT32_MAX) return false;
  constexpr int64_t kMostWork = int64_t{1} << 60;
  if ((Checked(x.shape[0]) + 1) * (Checked(y.shape[0]) + 1) * (Checked(x.shape[1]) + 1) > kMostWork)
    return false;
  if (!has_batches(request)) return true;
  return !request.is_absent(2) && !request.is_absent(3) && is_index(request.operands[2]) &&
         request.operands[2].shape == Shape{x.shape[0]} && is_index(request.operands[3]) &&
         request.operands[3].shape == Shape{y.shape[0]};
}

std::unique_ptr<PreparedKernel> prepare_nearest(const KernelRequest& request) {
  if (!fits(request)) return nullptr;
  const TensorSpec &x = request.operands[0], &y = request.operands[1];
  return std::make_unique<NearestKernel>(x.dtype, x.shape[0], y.shape[0], x.shape[1], has_batches(request));
}

Footprint footprint_of_nearest(const KernelRequest& request) {
  require_counts(request, 2, 4, 1);
  require_sound(request);
  require(fits(request), "has no points' shapes, strides or types");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("nearest", prepare_nearest, footprint_of_nearest);

}  // namespace
}  // namespace ipu::kernels
