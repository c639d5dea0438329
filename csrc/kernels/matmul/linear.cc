// Kernels "linear" and "fused_linear" (the same), "linear_input_gradient" and "linear_weight_gradient", f32 or
// f16. Leading dimensions of activations are rows. The weight is plain [N,K] as in torch, or panels of its
// transpose [K,N] (the spec's layout says which); the weight gradient comes out in either form. Bias, activation
// and addend are applied while a tile of the result is hot.
#include <optional>
#include <string>
#include <utility>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul/operand_matrix.h"
#include "kernels/tile_gemm/half_product.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {
namespace {

// One element type for all: f32 or f16. An absent operand has no shape, and no type.
bool is_uniform(const KernelRequest& request) {
  const DType dtype = request.results[0].dtype;
  for (const TensorSpec& spec : request.operands)
    if (spec.dtype != dtype && !spec.shape.empty()) return false;
  return request.results.size() == 1 && (dtype == DType::kF32 || dtype == DType::kF16);
}

// The weight as the matrix [K, N], however it is stored.
std::optional<MatrixSource> weight_matrix(const TensorSpec& spec) {
  if (spec.shape.size() != 2) return std::nullopt;
  return matrix_of(spec, !spec.layout.is_blocked());
}

MatrixSource transposed(MatrixSource m) {
  using Form = MatrixSource::Form;
  std::swap(m.rows, m.columns);
  switch (m.form) {
    case Form::kRows:
      m.form = Form::kTransposed;
      break;
    case Form::kTransposed:
      m.form = Form::kRows;
      break;
    case Form::kPanels:
      m.form = Form::kTransposedPanels;
      break;
    case Form::kTransposedPanels:
      m.form = Form::kPanels;
      break;
  }
  return m;
}

// The product a request asks for; which operands are A, B, bias and addend (-1: absent).
struct Plan {
  ProductShape shape;
  int a = 0, b = 1, bias = -1, addend = -1;
};

template <class Multiply, class T>
class ProductKernel : public PreparedKernel {
 public:
  explicit ProductKernel(const Plan& plan) : product_(plan.shape), plan_(plan) {}
  int lanes() const override { return product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    auto operand = [&](int i) { return reinterpret_cast<const T*>(call.operands[i]); };
    StopMeter meter(call);
    const T* bias = plan_.bias < 0 ? nullptr : operand(plan_.bias);
    T* const to = reinterpret_cast<T*>(call.results[0]);
    product_.run(operand(plan_.a), operand(plan_.b), bias, to, call.scratch, lane, meter,
                 plan_.addend < 0 ? nullptr : operand(plan_.addend));
  }

 private:
  Multiply product_;
  Plan plan_;
};

std::unique_ptr<PreparedKernel> make_kernel(const KernelRequest& request, const std::optional<Plan>& plan) {
  if (!plan) return nullptr;
  if (request.results[0].dtype == DType::kF16)
    return std::make_unique<ProductKernel<HalfProduct, Half>>(*plan);
  return std::make_unique<ProductKernel<Product, float>>(*plan);
}

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<Plan> plan_linear(const KernelRequest& request) {
  if (request.operands.size() < 2 || request.results.empty() || !is_uniform(request)) return std::nullopt;
  const auto x = rows_of(request.operands[0]);
  const auto w = weight_matrix(request.operands[1]);
  const auto y = rows_of(request.results[0]);
  if (!x || !w || !y || w->rows != x->columns || y->rows != x->rows || y->columns != w->columns)
    return std::nullopt;
  ProductShape shape;
  shape.m = x->rows;
  shape.n = w->columns;
  shape.k = x->columns;
  shape.lda = x->stride;
  shape.b = *w;
  shape.ldc = y->stride;
  // An absent optional bias is a missing operand or a spec without a shape.
  const bool has_bias = request.operands.size() > 2 && !request.operands[2].shape.empty();
  if (has_bias && (!request.operands[2].is_contiguous() || request.operands[2].shape != Shape{shape.n}))
    return std::nullopt;
  const std::string activation = text_of(request, "activation", "none");
  if (activation == "relu")
    shape.activation = Activation::kRelu;
  else if (activation == "gelu")
    shape.activation = Activation::kGelu;
  else if (activation != "none")
    return std::nullopt;
  const bool has_addend = request.operands.size() > 3 && !request.operands[3].shape.empty();
  if (has_addend) {
    const auto addend = rows_of(request.operands[3]);
    if (!addend || addend->rows != y->rows || addend->columns != y->columns || addend->stride != y->stride)
      return std::nullopt;
  }
  return Plan{shape, 0, 1, has_bias ? 2 : -1, has_addend ? 3 : -1};
}

// dx[M,K] = dy[M,N] · w[N,K]
std::optional<Plan> plan_input_gradient(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.empty() || !is_uniform(request)) return std::nullopt;
  const auto dy = rows_of(request.operands[0]);
  const auto w = weight_matrix(request.operands[1]);
  const auto dx = rows_of(request.results[0]);
  if (!dy || !w || !dx || w->columns != dy->columns || dx->rows != dy->rows || dx->columns != w->rows)
    return std::nullopt;
  ProductShape shape;
  shape.m = dy->rows;
  shape.n = w->rows;
  shape.k = w->columns;
  shape.lda = dy->stride;
  shape.b = transposed(*w);
  shape.ldc = dx->stride;
  return Plan{shape};
}

// dw[N,K] = dyᵀ · x, or packed [K,N] = xᵀ · dy: both read their operands in place.
std::optional<Plan> plan_weight_gradient(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.empty() || !is_uniform(request)) return std::nullopt;
  const auto x = rows_of(request.operands[0]);
  const auto dy = rows_of(request.operands[1]);
  const TensorSpec& result = request.results[0];
  if (!x || !dy || x->rows != dy->rows || result.shape.size() != 2) return std::nullopt;
  const bool packed = result.layout.is_blocked();
  if (!packed && !result.is_contiguous()) return std::nullopt;
  const MatrixSource &a = packed ? *x : *dy, &b = packed ? *dy : *x;
  if (result.shape != Shape{a.columns, b.columns}) return std::nullopt;
  ProductShape shape;
  shape.m = a.columns;
  shape.n = b.columns;
  shape.k = a.rows;
  shape.transposed_a = true;
  shape.lda = a.stride;
  shape.b = b;
  shape.packed_c = packed;
  shape.ldc = b.columns;
  return Plan{shape, packed ? 0 : 1, packed ? 1 : 0};
}

template <std::optional<Plan> (*kPlan)(const KernelRequest&)>
std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) {
  return make_kernel(request, kPlan(request));
}

template <std::optional<Plan> (*kPlan)(const KernelRequest&)>
Footprint footprint(const KernelRequest& request) {
  require_counts(request, 2, 4, 1);
  require_sound(request);
  const std::optional<Plan> plan = kPlan(request);
  require(plan.has_value(), "has no product's shapes, strides, types or attributes");
  require_disjoint(request.results[0]);
  Footprint touched = footprint_of_views(request);
  if (touched.operands.size() > 2 && plan->bias < 0) touched.operands[2] = {};
  if (touched.operands.size() > 3 && plan->addend < 0) touched.operands[3] = {};
  return touched;
}

IPU_REGISTER_KERNEL("linear", prepare<plan_linear>, footprint<plan_linear>);
IPU_REGISTER_KERNEL("fused_linear", prepare<plan_linear>, footprint<plan_linear>);
IPU_REGISTER_KERNEL("linear_input_gradient", prepare<plan_input_gradient>, footprint<plan_input_gradient>);
IPU_REGISTER_KERNEL("linear_weight_gradient", prepare<plan_weight_gradient>, footprint<plan_weight_gradient>);

}  // namespace
}  // namespace ipu::kernels
