// Kernel "matmul": a[...,M,K] · b[...,K,N] {trans_a, trans_b}, f32 or f16, equal batch dimensions. Operands
// are read where they are when one of their last two dimensions is dense; a 2-d operand 1 may be in panels.
// Batches are spread over lanes; a single product is cut by Product.
#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/matmul/operand_matrix.h"
#include "kernels/tile_gemm/half_product.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {
namespace {

struct Batch {
  Shape shape;  // batch dimensions only
  Strides a, b, c;
};

template <class Multiply, class T>
class BatchedProduct : public PreparedKernel {
 public:
  BatchedProduct(const ProductShape& shape, Batch batch)
      : batch_(std::move(batch)), count_(element_count(batch_.shape)), product_(shape) {
    if (count_ < 2) return;
    const double all = product_microseconds(shape.m, shape.n, shape.k) * static_cast<double>(count_);
    if (product_.lanes() > 1 && count_ * product_.lanes() <= 64) {
      groups_ = count_;
      return;
    }
    ProductShape whole = shape;
    whole.max_lanes = 1;
    product_ = Multiply(whole);
    groups_ = lanes_for_cost(all, count_);
  }
  int lanes() const override { return static_cast<int>(groups_) * product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    const int64_t group = lane / product_.lanes();
    StopMeter meter(call);
    for (int64_t i = count_ * group / groups_; i < count_ * (group + 1) / groups_; ++i) {
      int64_t a = 0, b = 0, c = 0, rest = i;
      for (size_t d = batch_.shape.size(); d-- > 0;) {
        const int64_t at = rest % batch_.shape[d];
        rest /= batch_.shape[d];
        a += at * batch_.a[d];
        b += at * batch_.b[d];
        c += at * batch_.c[d];
      }
      product_.run(reinterpret_cast<const T*>(call.operands[0]) + a,
                   reinterpret_cast<const T*>(call.operands[1]) + b, nullptr,
                   reinterpret_cast<T*>(call.results[0]) + c, call.scratch, lane % product_.lanes(), meter);
      if (meter.stops(10)) return;  // products of no elements take time, too
    }
  }

 private:
  Batch batch_;
  int64_t count_, groups_ = 1;
  Multiply product_;
};

struct Plan {
  ProductShape shape;
  Batch batch;
};

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<Plan> plan_of(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &a = request.operands[0], &b = request.operands[1], &c = request.results[0];
  if (a.dtype != b.dtype || a.dtype != c.dtype) return std::nullopt;
  if (a.dtype != DType::kF32 && a.dtype != DType::kF16) return std::nullopt;
  const size_t rank = a.shape.size();
  if (rank < 2 || b.shape.size() != rank || c.shape.size() != rank) return std::nullopt;
  if (!a.layout.is_plain() || !c.layout.is_plain()) return std::nullopt;
  const auto left = matrix_of(a, boolean_of(request, "trans_a", false));
  const auto right = matrix_of(b, boolean_of(request, "trans_b", false));
  const auto out = matrix_of(c, false);
  if (!left || !right || !out || out->form != MatrixSource::Form::kRows) return std::nullopt;
  if (right->rows != left->columns || out->rows != left->rows || out->columns != right->columns)
    return std::nullopt;

  Plan plan;
  plan.shape.m = left->rows;
  plan.shape.k = left->columns;
  plan.shape.n = right->columns;
  plan.shape.transposed_a = left->form == MatrixSource::Form::kTransposed;
  plan.shape.lda = left->stride;
  plan.shape.b = *right;
  plan.shape.ldc = out->stride;
  if (rank > 2) {
    const auto batch_dims = static_cast<std::ptrdiff_t>(rank - 2);
    Batch& batch = plan.batch;
    batch.shape.assign(a.shape.begin(), a.shape.begin() + batch_dims);
    batch.a.assign(a.strides.begin(), a.strides.begin() + batch_dims);
    batch.b.assign(b.strides.begin(), b.strides.begin() + batch_dims);
    batch.c.assign(c.strides.begin(), c.strides.begin() + batch_dims);
    for (const TensorSpec* other : {&b, &c})
      if (!std::equal(batch.shape.begin(), batch.shape.end(), other->shape.begin())) return std::nullopt;
  }
  return plan;
}

std::unique_ptr<PreparedKernel> prepare_matmul(const KernelRequest& request) {
  std::optional<Plan> plan = plan_of(request);
  if (!plan) return nullptr;
  if (request.results[0].dtype == DType::kF16)
    return std::make_unique<BatchedProduct<HalfProduct, Half>>(plan->shape, std::move(plan->batch));
  return std::make_unique<BatchedProduct<Product, float>>(plan->shape, std::move(plan->batch));
}

Footprint footprint_of_matmul(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  require(plan_of(request).has_value(), "has no product's shapes, strides, types or attributes");
  require_disjoint(request.results[0]);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("matmul", prepare_matmul, footprint_of_matmul);

}  // namespace
}  // namespace ipu::kernels
