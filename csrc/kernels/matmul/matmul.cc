// Kernel "matmul": a[...,M,K] · b[...,K,N] {trans_a, trans_b}, f32 or f16, equal batch dimensions. Operands
// are read where they are when one of their last two dimensions is dense; a 2-d operand 1 may be packed64.
// Batches are spread over lanes; a single product is cut by Product.
#include <algorithm>

#include "kernels/kernel_table.h"
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
    groups_ =
        all < 100 ? 1 : std::clamp<int64_t>(static_cast<int64_t>(all / 50), 1, std::min<int64_t>(16, count_));
  }
  int lanes() const override { return static_cast<int>(groups_) * product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    const int64_t group = lane / product_.lanes();
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
                   reinterpret_cast<T*>(call.results[0]) + c, call.scratch, lane % product_.lanes());
    }
  }

 private:
  Batch batch_;
  int64_t count_, groups_ = 1;
  Multiply product_;
};

std::unique_ptr<PreparedKernel> prepare_matmul(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return nullptr;
  const TensorSpec &a = request.operands[0], &b = request.operands[1], &c = request.results[0];
  if (a.dtype != b.dtype || a.dtype != c.dtype) return nullptr;
  if (a.dtype != DType::kF32 && a.dtype != DType::kF16) return nullptr;
  const size_t rank = a.shape.size();
  if (rank < 2 || b.shape.size() != rank || c.shape.size() != rank) return nullptr;
  if (a.layout != Layout::kPlain || c.layout != Layout::kPlain) return nullptr;
  const auto left = matrix_of(a, request.attributes.boolean("trans_a", false));
  const auto right = matrix_of(b, request.attributes.boolean("trans_b", false));
  const auto out = matrix_of(c, false);
  if (!left || !right || !out || out->form != MatrixSource::Form::kRows) return nullptr;

  ProductShape shape;
  shape.m = left->rows;
  shape.k = left->columns;
  shape.n = right->columns;
  shape.transposed_a = left->form == MatrixSource::Form::kTransposed;
  shape.lda = left->stride;
  shape.b = *right;
  shape.ldc = out->stride;
  Batch batch;
  if (rank > 2) {
    const auto batch_dims = static_cast<std::ptrdiff_t>(rank - 2);
    batch.shape.assign(a.shape.begin(), a.shape.begin() + batch_dims);
    batch.a.assign(a.strides.begin(), a.strides.begin() + batch_dims);
    batch.b.assign(b.strides.begin(), b.strides.begin() + batch_dims);
    batch.c.assign(c.strides.begin(), c.strides.begin() + batch_dims);
    if (!std::equal(batch.shape.begin(), batch.shape.end(), b.shape.begin())) return nullptr;
  }
  if (a.dtype == DType::kF16)
    return std::make_unique<BatchedProduct<HalfProduct, Half>>(shape, std::move(batch));
  return std::make_unique<BatchedProduct<Product, float>>(shape, std::move(batch));
}

IPU_REGISTER_KERNEL("matmul", prepare_matmul);

}  // namespace
}  // namespace ipu::kernels
