// The logarithm of the gamma function and its derivatives.
#include <fmt/core.h>

#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

constexpr const char* kFamily = "transcendental";

const OpRegistration lgamma =
    unary_op("lgamma", kFamily, "The logarithm of the gamma function's absolute value.", Func::kLgamma,
             kAnyFloat)
        .gradient(unary_gradient(
            [](GradientBuilder& g, ir::Value* dy) { return g.mul(dy, g.op("digamma", {g.operand(0)})); }))
        .from_aten({"lgamma"})
        .from_tensorflow({"Lgamma"})
        .samples(unary_samples(0.25, 4));

const OpRegistration digamma =
    unary_op("digamma", kFamily, "The derivative of lgamma.", Func::kDigamma, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          return g.mul(dy, g.op("polygamma", {g.operand(0)}, {{"order", int64_t{1}}}));
        }))
        .from_aten({"digamma"})
        .from_tensorflow({"Digamma"})
        .samples(unary_samples(0.25, 4));

void import_polygamma(AtenImportCall& call) {
  const int64_t order = call.integer("n");
  if (order < 0) call.unsupported(fmt::format("the derivative of order {}; n is 0 or more", order));
  const DType dtype = call.result_type(0).dtype;
  call.set_result(0, call.op("polygamma", {call.cast(call.tensor("self"), dtype)}, {{"order", order}}));
}

const OpRegistration polygamma =
    define_op("polygamma", kFamily)
        .doc("The derivative of digamma of this order.")
        .operand("x", kAnyFloat)
        .attribute("order")
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr order = Expr::constant(in[0].dtype(), static_cast<double>(a.integer("order")));
          return binary(Func::kPolygamma, order, in[0]);
        })
        .gradient([](GradientBuilder& g) {
          const int64_t order = g.attributes().integer("order");
          g.set(0, g.mul(g.upstream(), g.op("polygamma", {g.operand(0)}, {{"order", order + 1}})));
        })
        .from_aten({"polygamma"}, import_polygamma)
        .samples(unary_samples(0.5, 4, {{"order", int64_t{1}}}))
        .samples(unary_samples(0.75, 4, {{"order", int64_t{2}}}));

}  // namespace
}  // namespace ipu::ops
