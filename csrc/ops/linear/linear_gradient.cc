// Gradients of linear as ops of their own, because their kernels read and write the packed weight. Each is
// linear in both operands, so their own gradients are again linear and each other.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

Shape with_last(Shape shape, int64_t size) {
  shape.back() = size;
  return shape;
}

// Of all but the last dimension.
int64_t rows_of(const Shape& shape) { return element_count(std::span(shape).first(shape.size() - 1)); }

const OpRegistration linear_input_gradient =
    define_op("linear_input_gradient", "linear")
        .doc("Gradient of linear for x: dy [..., N] times weight [N, K].")
        .operand("dy", kAnyFloat)
        .operand("weight", kAnyFloat)
        .result("dx")
        .traits(kMatmul | kExpensive)
        .infer([](const InferContext& c) {
          const ir::Type &dy = c.operand(0), &w = c.operand(1);
          require_same_dtype(c, 0, 1);
          if (w.shape.size() != 2 || dy.shape.empty() || dy.shape.back() != w.shape[0]) {
            shape_error(fmt::format("dy {} must end in the number of rows of the weight {}",
                                    to_string(dy.shape), to_string(w.shape)));
          }
          return std::vector<ir::Type>{{dy.dtype, with_last(dy.shape, w.shape[1])}};
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.op("linear", {g.upstream(), g.operand(1)}));
          if (g.needs(1)) g.set(1, g.op("linear_weight_gradient", {g.upstream(), g.operand(0)}));
        })
        .reference([](ReferenceCall& call) {
          const ReferenceTensor &dy = call.operand(0), &w = call.operand(1);
          const int64_t n = w.type.shape[0], k = w.type.shape[1];
          std::vector<double>& dx = call.result().values;
          for (size_t i = 0; i < dx.size(); ++i) {
            const auto row = static_cast<int64_t>(i) / k, column = static_cast<int64_t>(i) % k;
            for (int64_t j = 0; j < n; ++j) dx[i] += dy.values[row * n + j] * w.values[j * k + column];
          }
        })
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .work([](const ir::Op& op) {
          const Shape& weight = op.operand(1)->type().shape;
          return product_work(
              op, {.rows = rows_of(op.operand(0)->type().shape), .inputs = weight[0], .outputs = weight[1]});
        })
        .samples({{{f32({2, 4}), f32({4, 3})}, {}}, {{f32({2, 3, 2}), f32({2, 5})}, {}}});

const OpRegistration linear_weight_gradient =
    define_op("linear_weight_gradient", "linear")
        .doc(
            "Gradient of linear for the weight: sum over all rows of dy [..., N] times x [..., K], as [N, "
            "K].")
        .operand("x", kAnyFloat)
        .operand("dy", kAnyFloat)
        .result("dw")
        .traits(kExpensive)
        .layouts({{}, {LayoutWish::kPanels}})
        .infer([](const InferContext& c) {
          const ir::Type &x = c.operand(0), &dy = c.operand(1);
          require_same_dtype(c, 0, 1);
          if (x.shape.empty() || dy.shape.empty() || with_last(x.shape, 0) != with_last(dy.shape, 0)) {
            shape_error(fmt::format("x {} and dy {} must agree in all but the last dimension",
                                    to_string(x.shape), to_string(dy.shape)));
          }
          return std::vector<ir::Type>{{x.dtype, {dy.shape.back(), x.shape.back()}}};
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.op("linear_input_gradient", {g.operand(1), g.upstream()}));
          if (g.needs(1)) g.set(1, g.op("linear", {g.operand(0), g.upstream()}));
        })
        .reference([](ReferenceCall& call) {
          const ReferenceTensor &x = call.operand(0), &dy = call.operand(1);
          const int64_t n = dy.type.shape.back(), k = x.type.shape.back();
          const int64_t rows = rows_of(x.type.shape);
          std::vector<double>& dw = call.result().values;
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t i = 0; i < n; ++i) {
              for (int64_t j = 0; j < k; ++j) dw[i * k + j] += dy.values[row * n + i] * x.values[row * k + j];
            }
          }
        })
        // x^T times dy, as the library is asked for it.
        .work([](const ir::Op& op) {
          const Shape &x = op.operand(0)->type().shape, &dy = op.operand(1)->type().shape;
          return product_work(op, {.rows = x.back(), .inputs = rows_of(x), .outputs = dy.back()});
        })
        .samples({{{f32({2, 3}), f32({2, 4})}, {}},
                  {{f32({2, 3, 5}), f32({2, 3, 2})}, {}},
                  {{f32({3}), f32({2})}, {}}});

}  // namespace
}  // namespace ipu::ops
