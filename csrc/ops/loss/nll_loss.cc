// nll_loss and its gradient: minus the log-probability of the target class, mean over targets that are not
// ignored.
#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/loss/class_targets.h"

namespace ipu::ops {
namespace {

void nll_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.operand(0);
  const ClassTargets targets(call, 0, 1);
  std::vector<double> losses(targets.size(), 0.0);
  for (int64_t i = 0; i < targets.size(); ++i) {
    if (!targets.ignored(i)) losses[i] = -x.values[targets.element(i, targets.target(i))];
  }
  reduce_losses(call, losses, static_cast<double>(targets.counted()));
}

void nll_gradient_reference(ReferenceCall& call) {
  const ClassTargets targets(call, 1, 2);
  for (int64_t i = 0; i < targets.size(); ++i) {
    if (!targets.ignored(i))
      call.result().values[targets.element(i, targets.target(i))] = -targets.upstream(call, i);
  }
}

std::vector<ir::Value*> nll_gradient_parts(ir::Op& op) {
  Composer c(op);
  const ClassGradientParts p = class_gradient_parts(c);
  ir::Value* taken = c.op("logical_and", {p.is_class, p.counts});
  ir::Value* zero = c.scalar_like(p.upstream, 0.0);
  return {c.op("where", {taken, c.op("neg", {p.upstream}), zero})};
}

void import_nll_loss(AtenImportCall& call) {
  const auto [x, target] = class_operands(call);
  ir::Value* loss =
      class_loss(call, "nll_loss", x, target, call.optional_tensor("weight"),
                 {{"ignore_index", call.has("ignore_index") ? call.integer("ignore_index") : -100},
                  {"reduction", reduction_word(call)}});
  call.set_result(0, reshaped(call, loss, call.result_type(0).shape));
}

void import_onnx_nll_loss(NodeImportCall& call) {
  call.set_result(0, class_loss(call, "nll_loss", call.operand(0), call.operand(1),
                                call.has_operand(2) ? call.operand(2) : nullptr, onnx_class_loss(call)));
}

const OpRegistration nll_loss =
    define_op("nll_loss", "loss")
        .doc(
            "Minus log_probs [N, C, ...] at the classes target [N, ...]; targets equal to ignore_index count "
            "neither in "
            "the sum nor in the mean.")
        .operand("log_probs", kAnyFloat)
        .operand("target", kAnyInteger)
        .attribute("ignore_index", int64_t{-100})
        .attribute("reduction", std::string("mean"))
        .result("loss")
        .traits(kLoss)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{class_loss_type(c)}; })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("nll_loss_gradient", {g.upstream(), g.operand(0), g.operand(1)}, g.attributes()));
        })
        .reference(nll_reference)
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const ir::Type& x = op.operand(0)->type();
          return {pass_over(x, {"Loss"}),
                  reduction_of({x.dtype, op.operand(1)->type().shape}, op.result()->type().elements())};
        })
        .from_aten({"nll_loss", "nll_loss_nd", "nll_loss2d"}, import_nll_loss)
        .from_onnx("NegativeLogLikelihoodLoss", {12}, import_onnx_nll_loss)
        .samples({{{f32({4, 5}), i32({4})}, {}, -3, 0, {{1, {0, 4}}}},
                  {{f32({4, 5}), i32({4})},
                   {{"reduction", std::string("none")}, {"ignore_index", int64_t{2}}},
                   -3,
                   0,
                   {{1, {0, 4}}}},
                  {{f32({2, 3, 2, 2}), i32({2, 2, 2})},
                   {{"reduction", std::string("sum")}},
                   -3,
                   0,
                   {{1, {0, 2}}}}});

const OpRegistration nll_loss_gradient =
    define_op("nll_loss_gradient", "loss")
        .doc("Gradient of nll_loss for log_probs.")
        .operand("dy", kAnyFloat)
        .operand("log_probs", kAnyFloat)
        .operand("target", kAnyInteger)
        .attribute("ignore_index", int64_t{-100})
        .attribute("reduction", std::string("mean"))
        .result("dx")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{class_gradient_type(c)}; })
        .decompose(nll_gradient_parts)
        .reference(nll_gradient_reference)
        .work([](const ir::Op& op) { return std::vector{pass_over(op.result()->type(), {"Mul"})}; })
        .samples({{{f32({}), f32({4, 5}), i32({4})}, {}, -1, 1, {{2, {0, 4}}}},
                  {{f32({4}), f32({4, 5}), i32({4})},
                   {{"reduction", std::string("none")}, {"ignore_index", int64_t{2}}},
                   -1,
                   1,
                   {{2, {0, 4}}}}});

}  // namespace
}  // namespace ipu::ops
