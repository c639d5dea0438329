// half_partials_product, and what the ops of this family are made of with it.
#include "ops/linear/half_partials.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/definition/rule_support.h"
#include "ops/linear/product_work.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

constexpr int64_t kGroup = 16;  // products between two roundings

void half_partials_reference(ReferenceCall& call) {
  const ReferenceTensor &a = call.operand(0), &b = call.operand(1), &start = call.operand(2);
  const int64_t m = a.type.shape[1], k = a.type.shape[2], n = b.type.shape[2];
  std::vector<double>& y = call.result().values;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n, batch = row / m;
    float sum = static_cast<float>(start.values[i]);
    for (int64_t j = 0; j < k; ++j) {
      sum += static_cast<float>(a.values[row * k + j] * b.values[(batch * k + j) * n + column]);
      if (j % kGroup == kGroup - 1 || j == k - 1) sum = half_to_float(float_to_half(sum));
    }
    y[i] = sum;
  }
}

ir::Type half(Shape shape) { return {DType::kF16, std::move(shape)}; }

const OpRegistration product =
    define_op("half_partials_product", "linear")
        .doc(
            "start [B, M, N] plus the product of a [B, M, K] and b [B, K, N] with f16 partial sums: 16 products at a "
            "time are added in f32, in order, and the sum is rounded to f16 between them.")
        .operand("a", bit(DType::kF16))
        .operand("b", bit(DType::kF16))
        .operand("start", bit(DType::kF16))
        .result("y")
        .traits(kMatmul | kExpensive)
        .infer([](const InferContext& c) {
          const Shape &a = c.operand(0).shape, &b = c.operand(1).shape;
          if (a.size() != 3 || b.size() != 3 || b[0] != a[0] || b[1] != a[2] ||
              c.operand(2).shape != Shape{a[0], a[1], b[2]})
            shape_error("a " + to_string(a) + ", b " + to_string(b) + " and start " +
                        to_string(c.operand(2).shape) + " must be [B, M, K], [B, K, N] and [B, M, N]");
          return std::vector<ir::Type>{c.operand(2)};
        })
        .gradient_refused("it is inserted after differentiation")
        .reference(half_partials_reference)
        .work([](const ir::Op& op) {
          const Shape &a = op.operand(0)->type().shape, &y = op.result()->type().shape;
          return product_work(op, {.groups = a[0], .rows = a[1], .inputs = a[2], .outputs = y[2]}, true);
        })
        .samples({{{half({1, 3, 5}), half({1, 5, 4}), half({1, 3, 4})}, {}},
                  {{half({2, 33, 40}), half({2, 40, 70}), half({2, 33, 70})}, {}},
                  {{half({2, 3, 0}), half({2, 0, 4}), half({2, 3, 4})}, {}}});

ir::Value* reshaped(ir::Builder& builder, ir::Value* x, Shape shape) {
  return ops::build(builder, "reshape", {x}, {{"shape", std::move(shape)}});
}

// The last two dimensions exchanged.
ir::Value* transposed(ir::Builder& builder, ir::Value* x) {
  std::vector<int64_t> perm(x->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.end()[-1], perm.end()[-2]);
  return ops::build(builder, "transpose", {x}, {{"perm", perm}});
}

// All but the last two dimensions as one.
ir::Value* as_batches(ir::Builder& builder, ir::Value* x) {
  const Shape& shape = x->type().shape;
  return reshaped(
      builder, x,
      {element_count(std::span(shape).first(shape.size() - 2)), shape.end()[-2], shape.end()[-1]});
}

// [..., K] as [1, rows, K].
ir::Value* as_rows(ir::Builder& builder, ir::Value* x) {
  const Shape& shape = x->type().shape;
  return reshaped(builder, x, {1, element_count(std::span(shape).first(shape.size() - 1)), shape.back()});
}

}  // namespace

bool has_half_partials(const ir::Op& op) {
  constexpr std::array<std::string_view, 4> kProducts{"matmul", "linear", "linear_input_gradient",
                                                      "linear_weight_gradient"};
  const bool is_product = std::ranges::find(kProducts, op.kind()) != kProducts.end();
  if (!is_product && !has_trait(op, kConvolution)) return false;
  if (op.result_count() != 1 || op.result()->type().dtype != DType::kF16) return false;
  const Attribute* own = op.settings.outline.find(is_product ? "matmul_partials" : "multi_conv_partials");
  if (own != nullptr) return *own == Attribute(std::string("half"));
  return op.graph()->module()->attributes.boolean(is_product ? "half_products" : "half_convolutions", false);
}

ir::Value* half_partials_product(ir::Builder& builder, ir::Value* a, ir::Value* b, ir::Value* start) {
  if (start == nullptr)
    start = builder.splat({DType::kF16, {a->type().shape[0], a->type().shape[1], b->type().shape[2]}}, 0.0);
  return ops::build(builder, "half_partials_product", {a, b, start});
}

ir::Value* build_with_half_partials(ir::Builder& builder, const ir::Op& op) {
  if (op.result_count() != 1 || op.result()->type().dtype != DType::kF16) return nullptr;
  if (has_trait(op, kConvolution)) return conv_with_half_partials(builder, op);
  ir::Value *a = op.operand(0), *b = op.operand_count() > 1 ? op.operand(1) : nullptr, *y = nullptr;
  if (op.is("matmul")) {
    if (op.attributes.boolean("trans_a", false)) a = transposed(builder, a);
    if (op.attributes.boolean("trans_b", false)) b = transposed(builder, b);
    y = half_partials_product(builder, as_batches(builder, a), as_batches(builder, b));
  } else if (op.is("linear")) {
    y = half_partials_product(builder, as_rows(builder, a), as_batches(builder, transposed(builder, b)));
  } else if (op.is("linear_input_gradient")) {
    y = half_partials_product(builder, as_rows(builder, a), as_batches(builder, b));
  } else if (op.is("linear_weight_gradient")) {
    y = half_partials_product(builder, transposed(builder, as_rows(builder, b)), as_rows(builder, a));
  } else {
    return nullptr;
  }
  y = reshaped(builder, y, op.result()->type().shape);
  const bool has_bias = op.is("linear") && op.operand_count() > 2 && op.operand(2) != nullptr;
  return has_bias ? ops::build(builder, "add", {y, op.operand(2)}) : y;
}

}  // namespace ipu::ops
