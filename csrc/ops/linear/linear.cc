// linear: x w^T + bias, whole as torch captures it, so that weights can be kept packed. Its gradients are in
// linear_gradient.cc.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

ir::Type linear_type(const InferContext& c) {
  const ir::Type &x = c.operand(0), &w = c.operand(1);
  require_same_dtype(c, 0, 1);
  if (w.shape.size() != 2 || x.shape.empty() || x.shape.back() != w.shape[1]) {
    shape_error(fmt::format("x {} must end in the number of columns of the weight {}", to_string(x.shape),
                            to_string(w.shape)));
  }
  if (c.has(2)) {
    require_same_dtype(c, 0, 2);
    if (c.operand(2).shape != Shape{w.shape[0]}) {
      shape_error(fmt::format("the bias {} must have one element per row of the weight {}",
                              to_string(c.operand(2).shape), to_string(w.shape)));
    }
  }
  ir::Type y{x.dtype, x.shape};
  y.shape.back() = w.shape[0];
  return y;
}

void linear_reference(ReferenceCall& call) {
  const ReferenceTensor &x = call.operand(0), &w = call.operand(1);
  const int64_t n = w.type.shape[0], k = w.type.shape[1];
  std::vector<double>& y = call.result().values;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n;
    double sum = 0.0;
    for (int64_t j = 0; j < k; ++j) sum += x.values[row * k + j] * w.values[column * k + j];
    y[i] = sum + (call.has(2) ? call.operand(2).values[column] : 0.0);
  }
}

void linear_gradient(GradientBuilder& g) {
  ir::Value* dy = g.upstream();
  if (g.needs(0)) g.set(0, g.op("linear_input_gradient", {dy, g.operand(1)}));
  if (g.needs(1)) g.set(1, g.op("linear_weight_gradient", {g.operand(0), dy}));
  if (g.has_operand(2) && g.needs(2)) {
    std::vector<int64_t> leading;
    for (size_t d = 0; d + 1 < dy->type().shape.size(); ++d) leading.push_back(static_cast<int64_t>(d));
    g.set(2, g.sum(dy, leading, false));
  }
}

void import_linear(AtenImportCall& call) {
  ir::Value* bias = call.optional_tensor("bias");
  ir::Value *x = call.tensor("input"), *w = call.tensor("weight");
  if (w->type().shape.size() == 1) {  // torch also takes a vector as weight: then without a bias
    if (bias != nullptr) call.unsupported("a bias with a one-dimensional weight");
    ir::Value* y = call.op("linear", {x, reshaped(call, w, {1, w->type().shape[0]})});
    call.set_result(0, reshaped(call, y, call.result_type(0).shape));
    return;
  }
  call.set_result(0, bias == nullptr ? call.op("linear", {x, w}) : call.op("linear", {x, w, bias}));
}

const OpRegistration linear =
    define_op("linear", "linear")
        .doc("x [..., K] times the transpose of weight [N, K], plus bias [N].")
        .operand("x", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .result("y")
        .traits(kMatmul | kExpensive)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{linear_type(c)}; })
        .gradient(linear_gradient)
        .reference(linear_reference)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .work(linear_work)
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          if (!part.is_only_cut(0) || part.axis(0) == part.rank(0) - 1) return std::nullopt;
          return part.axis(0);
        })
        .from_aten({"linear"}, import_linear)
        .samples({{{f32({2, 3}), f32({4, 3}), f32({4})}, {}},
                  {{f32({3}), f32({2, 3}), f32({2})}, {}},
                  {{f32({2, 3, 5}), f32({1, 5})}, {}}});

}  // namespace
}  // namespace ipu::ops
