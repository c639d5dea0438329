// identity_loss: marks any value as a loss; poptorch.identity_loss and all losses composed of elementwise ops
// end in it.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/work.h"
#include "ops/loss/loss_support.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> all_dims(const ir::Op& op) {
  std::vector<int64_t> dims(op.operand(0)->type().shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// It runs as the reduction it is.
std::vector<KernelChoice> identity_loss_kernels(const ir::Op& op) {
  const std::string reduction = op.attributes.text("reduction", "mean");
  const ir::Type& x = op.operand(0)->type();
  if (reduction == "none" || x.shape.empty()) return {strided_copy(0, contiguous_strides(x.shape))};
  return {
      {reduction == "mean" ? "reduce_mean" : "reduce_sum", {{"dims", all_dims(op)}, {"keep_dims", false}}}};
}

void import_identity_loss(AtenImportCall& call) {
  const std::string reduction = call.text("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    call.unsupported(fmt::format("reduction=\"{}\"; use \"mean\", \"sum\" or \"none\"", reduction));
  }
  ir::Value* x = call.tensor("x");
  if (!is_floating_point(x->type().dtype))
    call.unsupported("a loss of dtype " + std::string(to_string(x->type().dtype)));
  call.set_result(0, call.op("identity_loss", {x}, {{"reduction", reduction}}));
}

const OpRegistration identity_loss =
    define_op("identity_loss", "loss")
        .doc("x as a loss: its mean, its sum, or x itself (reduction \"none\").")
        .operand("x", kAnyFloat)
        .attribute("reduction", std::string("mean"))
        .result("loss")
        .traits(kLoss)
        .infer([](const InferContext& c) {
          return std::vector<ir::Type>{{c.operand(0).dtype, loss_shape(c, c.operand(0).shape)}};
        })
        .gradient([](GradientBuilder& g) { g.set(0, spread_upstream(g, g.operand_type(0).shape)); })
        .reference([](ReferenceCall& call) {
          reduce_losses(call, call.operand(0).values, static_cast<double>(call.operand(0).size()));
        })
        .kernels(identity_loss_kernels)
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const ir::Type &x = op.operand(0)->type(), &loss = op.result()->type();
          if (loss.shape == x.shape) return {};
          return {reduction_of(x, loss.elements())};
        })
        .from_aten({"poptorch::identity_loss"}, import_identity_loss)
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {}},
                  {{ir::Type{DType::kF32, {2, 3}}}, {{"reduction", std::string("sum")}}},
                  {{ir::Type{DType::kF32, {2, 3}}}, {{"reduction", std::string("none")}}},
                  {{ir::Type{DType::kF32, {}}}, {}}});

}  // namespace
}  // namespace ipu::ops
