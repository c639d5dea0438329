// What alone reads a convolution becomes the end of it, done to each tile while it is in the cache: a product with
// and a sum with one number a channel (what a batch norm with given statistics decomposes to), the addition of a
// tensor of the same shape (a residual) and, last of all, relu or the exact gelu. A scale and a bias that the
// convolution has already are multiplied and added to by ops over the channels. Leaves alone: halves, which are
// rounded between the ops; convolutions that somebody else reads (a gradient); ops on another IPU, stage or phase;
// residuals of images that are not channels last; whatever comes behind an activation, and behind a residual but for
// the activation.
#include <span>

#include "ops/definition/build.h"
#include "ops/fusion/activation.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "passes/sole_reader.h"

namespace ipu::passes {
namespace {

// A convolution, of either kind, as the fused one: its operands in that order.
struct Convolution {
  enum Operand : int { kX, kWeight, kScale, kBias, kAddend, kOperands };
  ir::Op* op = nullptr;
  ir::Value* operands[kOperands] = {};
  explicit Convolution(ir::Op* found) : op(found) {
    const bool fused = op->is("fused_conv");
    for (int i = 0; i < op->operand_count(); ++i) operands[fused || i < kScale ? i : kBias] = op->operand(i);
  }
};

bool is_convolution(const ir::Op& op) {
  return (op.is("conv") || op.is("fused_conv")) && op.result()->type().dtype == DType::kF32 &&
         op.attributes.text("activation", "none") == "none";
}

// Whether `value` has one number for each channel of an image: [C, 1, ...], with or without a leading 1.
bool is_by_channel(const ir::Type& value, const ir::Type& image) {
  const size_t rank = image.shape.size();
  if (value.dtype != DType::kF32 || !value.layout.is_plain() || value.elements() != image.shape[1] ||
      value.shape.size() + 1 < rank || value.shape.size() > rank)
    return false;
  return value.shape[value.shape.size() + 1 - rank] == image.shape[1];
}

class FuseIntoConvolutions : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override { return operand_to_end(op) >= 0; }

  void apply(ir::Op& op, const PassContext& context) override {
    const int i = operand_to_end(op);
    const ir::Type image = op.operand(i)->type();
    Convolution convolution(op.operand(i)->producer());
    // Where `op` is, so that its other operand is made before it.
    ir::Builder builder(op.graph(), &op);
    builder.settings = convolution.op->settings;
    builder.location = ir::join(convolution.op->location, {&op.location, 1});
    builder.origin = convolution.op->origin;
    Attributes attributes = convolution.op->attributes;
    if (ops::is_activation(op)) {
      attributes.set("activation", std::string(op.kind()));
      context.count("activations joined");
    } else if (is_by_channel(op.operand(1 - i)->type(), image)) {
      ir::Value* by_channel =
          ops::build(builder, "reshape", {op.operand(1 - i)}, {{"shape", Shape{image.shape[1]}}});
      auto join = [&](Convolution::Operand at) {
        ir::Value*& old = convolution.operands[at];
        old = old == nullptr ? by_channel : ops::build(builder, op.kind(), {old, by_channel});
      };
      if (op.is("add")) {
        join(Convolution::kBias);
      } else {
        join(Convolution::kScale);
        if (convolution.operands[Convolution::kBias] != nullptr) join(Convolution::kBias);
      }
      context.count("scales and biases joined");
    } else {
      convolution.operands[Convolution::kAddend] = op.operand(1 - i);
      context.count("addends joined");
    }
    std::span<ir::Value* const> operands(convolution.operands);
    while (operands.back() == nullptr) operands = operands.first(operands.size() - 1);
    ir::Value* made = ops::build_op(builder, "fused_conv", operands, std::move(attributes))->result();
    made->set_type(image);  // in the layout that was chosen for it
    ir::Graph* graph = op.graph();
    const std::string name = op.result()->name();
    replace_op(op, {made});
    graph->erase(convolution.op);
    graph->rename(made, name);
  }

 private:
  // The operand of `op` that is a convolution which may end in `op`; -1: none.
  static int operand_to_end(const ir::Op& op) {
    if (!ops::is_activation(op) && !op.is("add") && !op.is("mul")) return -1;
    for (int i = 0; i < op.operand_count(); ++i)
      if (may_end(op, i)) return i;
    return -1;
  }

  static bool may_end(const ir::Op& op, int i) {
    ir::Op* maker = made_for(op, i);
    if (maker == nullptr || !is_convolution(*maker)) return false;
    const ir::Type &image = op.operand(i)->type(), &result = op.result()->type();
    if (image.shape != result.shape || image.layout != result.layout) return false;
    if (ops::is_activation(op)) return true;
    if (Convolution(maker).operands[Convolution::kAddend] != nullptr) return false;
    const ir::Type& other = op.operand(1 - i)->type();
    if (is_by_channel(other, image)) return true;
    return op.is("add") && other.shape == image.shape && other.dtype == image.dtype &&
           other.layout == image.layout && image.layout.is_channels_last();
  }
};

IPU_REGISTER_PASS(
    FuseIntoConvolutions, "fuse-into-convolutions",
    "Makes scales, biases, residual sums and activations the end of the convolutions they alone read.",
    {"activations joined", "addends joined", "scales and biases joined"});

}  // namespace
}  // namespace ipu::passes
