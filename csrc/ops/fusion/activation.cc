// See activation.h.
#include "ops/fusion/activation.h"

#include <fmt/core.h>

namespace ipu::ops {

Expr activated(const std::string& activation, const Expr& x) {
  if (activation == "none") return x;
  if (activation == "relu") return binary(Func::kMax, x, Expr::constant(DType::kF32, 0.0));
  if (activation == "gelu") return unary(Func::kGelu, x);
  return {};
}

bool is_activation(const ir::Op& op) {
  return op.is("relu") || (op.is("gelu") && op.attributes.text("approximate", "none") == "none");
}

void add_activation_work(const ir::Op& op, const ir::Value* addend, std::vector<target::Work>* work) {
  const std::string activation = op.attributes.text("activation", "none");
  const ir::Type& y = op.result()->type();
  if (activation != "none") work->push_back(pass_over(y, {activation == "relu" ? "Relu" : "Gelu"}));
  if (addend != nullptr) work->push_back(pass_over(y, {"Add"}, 2));
}

void require_activation(const InferContext& c) {
  const std::string& activation = c.attributes.text("activation", "none");
  if (!activated(activation, Expr::input(0, DType::kF32)))
    attribute_error(fmt::format("activation '{}' is not none, relu or gelu", activation));
}

}  // namespace ipu::ops
