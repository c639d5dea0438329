// fused_linear: a product with what alone reads it, made by the pass fuse-into-products.
#include <fmt/core.h>

#include "ops/definition/build.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/fusion/activation.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

constexpr DTypeSet kHalfOrFloat = bit(DType::kF16) | bit(DType::kF32);

enum Operand : int { kX, kWeight, kBias, kAddend };

ir::Type type_of(const InferContext& c) {
  require_activation(c);
  InferContext product{"linear", c.operands, c.attributes};
  if (c.operands.size() > kAddend) product.operands.pop_back();
  ir::Type y = get_op("linear").infer(product).front();
  if (c.has(kAddend) && c.operand(kAddend).shape != y.shape)
    shape_error(fmt::format("the addend {} must have the shape {} of the result",
                            to_string(c.operand(kAddend).shape), to_string(y.shape)));
  if (c.has(kAddend)) require_same_dtype(c, kX, kAddend);
  return y;
}

void reference(ReferenceCall& call) {
  const ReferenceTensor &x = call.operand(kX), &w = call.operand(kWeight);
  const size_t n = static_cast<size_t>(w.type.shape[0]), k = static_cast<size_t>(w.type.shape[1]);
  const std::string& activation = call.attributes.text("activation", "none");
  const Expr end = activated(activation, Expr::input(0, DType::kF32));
  const DType dtype = call.result().type.dtype;
  // Halves are rounded where the ops would end that this one stands for; relu changes nothing about that.
  const auto rounded = [&](double value) { return dtype == DType::kF16 ? round_to(dtype, value) : value; };
  std::vector<double>& y = call.result().values;
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = call.has(kBias) ? call.operand(kBias).values[i % n] : 0.0;
    for (size_t j = 0; j < k; ++j) sum += x.values[i / n * k + j] * w.values[i % n * k + j];
    sum = rounded(sum);
    y[i] = rounded(evaluate(end, {&sum, 1})) + (call.has(kAddend) ? call.operand(kAddend).values[i] : 0.0);
  }
}

std::vector<target::Work> fused_linear_work(const ir::Op& op) {
  std::vector<target::Work> work = linear_work(op);
  add_activation_work(op, op.operand_count() > kAddend ? op.operand(kAddend) : nullptr, &work);
  return work;
}

const OpRegistration fused_linear =
    define_op("fused_linear", "fusion")
        .doc(
            "activation(x [..., K] times the transpose of weight [N, K], plus bias [N]), plus addend [..., N]. "
            "activation is none, relu or gelu. Halves are rounded after each of the three.")
        .operand("x", kHalfOrFloat)
        .operand("weight", kHalfOrFloat)
        .optional_operand("bias", kHalfOrFloat)
        .optional_operand("addend", kHalfOrFloat)
        .attribute("activation", "none")
        .result("y")
        .traits(kMatmul | kExpensive)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{type_of(c)}; })
        .gradient_refused("it is made after gradients are")
        .reference(reference)
        .kernel("fused_linear")
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .work(fused_linear_work)
        .samples(
            {{{f32({3, 4}), f32({70, 4}), f32({70})}, {{"activation", std::string("gelu")}}},
             {{f32({3, 4}), f32({2, 4})}, {{"activation", std::string("relu")}}},
             {{f32({5, 4}), f32({66, 4}), f32({66}), f32({5, 66})}, {{"activation", std::string("gelu")}}},
             {{f32({2, 3, 4}), f32({2, 4}), std::nullopt, f32({2, 3, 2})}, {}}});

}  // namespace
}  // namespace ipu::ops
