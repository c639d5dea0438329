// What alone reads a product becomes the end of it, done to each tile while it is in the cache, so that the sums
// before it never reach memory: a bias, relu or the exact gelu and, behind it, the addition of a tensor of the same
// shape (a residual). Leaves alone: products that somebody else reads (a gradient); ops on another IPU, stage or
// phase; activations of a sum with a residual; other additions that broadcast, or change the type.
#include "ops/definition/build.h"
#include "ops/fusion/activation.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "passes/sole_reader.h"

namespace ipu::passes {
namespace {

constexpr int kAddend = 3;

bool is_product(const ir::Op& op) {
  const DType dtype = op.result()->type().dtype;
  return (op.is("linear") || op.is("fused_linear")) && (dtype == DType::kF32 || dtype == DType::kF16);
}
bool has_addend(const ir::Op& product) {
  return product.operand_count() > kAddend && product.operand(kAddend) != nullptr;
}

// The product that makes operand i, if `op` alone reads it, where `op` runs too; nullptr otherwise.
ir::Op* product_before(const ir::Op& op, int i) {
  ir::Op* product = made_for(op, i);
  if (product == nullptr || !is_product(*product) || has_addend(*product)) return nullptr;
  const ir::Type &x = op.operand(i)->type(), &y = op.result()->type();
  return x.dtype == y.dtype && x.shape == y.shape && x.layout == y.layout ? product : nullptr;
}

class FuseIntoProducts : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override {
    if (!ops::is_activation(op))
      return op.is("add") && (product_to_bias(op) >= 0 || product_to_add_to(op) >= 0);
    const ir::Op* product = product_before(op, 0);
    return product != nullptr && product->attributes.text("activation", "none") == "none";
  }

  void apply(ir::Op& op, const PassContext& context) override {
    if (op.is("add") && product_to_bias(op) >= 0) return join_bias(op, product_to_bias(op), context);
    const bool adds = op.is("add");
    const int i = adds ? product_to_add_to(op) : 0;
    ir::Op* product = op.operand(i)->producer();
    std::vector<ir::Value*> operands;
    for (int k = 0; k < product->operand_count(); ++k) operands.push_back(product->operand(k));
    Attributes attributes = product->attributes;
    if (adds) {
      operands.resize(kAddend, nullptr);
      operands.push_back(op.operand(1 - i));
    } else {
      attributes.set("activation", std::string(op.kind()));
    }
    // Where `op` is, so that the addend is made before it.
    ir::Builder builder(op.graph(), &op);
    builder.settings = product->settings;
    builder.location = ir::join(product->location, {&op.location, 1});
    builder.origin = product->origin;
    ir::Value* made = ops::build_op(builder, "fused_linear", operands, std::move(attributes))->result();
    ir::Graph* graph = op.graph();
    const std::string name = op.result()->name();
    replace_op(op, {made});
    graph->erase(product);
    graph->rename(made, name);
    context.count(adds ? "addends joined" : "activations joined");
  }

 private:
  // The operand of an addition that is a product without a bias, where the other one is a number for each of its columns; -1:
  // none.
  static int product_to_bias(const ir::Op& op) {
    const ir::Type& sum = op.result()->type();
    for (int i : {0, 1}) {
      const ir::Type& other = op.operand(1 - i)->type();
      if (other.dtype != sum.dtype || sum.shape.empty() || other.shape != Shape{sum.shape.back()}) continue;
      const ir::Op* product = product_before(op, i);
      if (product != nullptr && product->is("linear") &&
          (product->operand_count() == 2 || product->operand(2) == nullptr))
        return i;
    }
    return -1;
  }

  static void join_bias(ir::Op& op, int i, const PassContext& context) {
    ir::Op* product = op.operand(i)->producer();
    ir::Builder builder(op.graph(), &op);
    builder.settings = product->settings;
    builder.location = ir::join(product->location, {&op.location, 1});
    builder.origin = product->origin;
    ir::Value* made =
        ops::build(builder, "linear", {product->operand(0), product->operand(1), op.operand(1 - i)});
    ir::Graph* graph = op.graph();
    const std::string name = op.result()->name();
    replace_op(op, {made});
    graph->erase(product);
    graph->rename(made, name);
    context.count("biases joined");
  }

  // The operand of an addition that the other one may be added to; -1: none.
  static int product_to_add_to(const ir::Op& op) {
    const ir::Type& sum = op.result()->type();
    for (int i : {0, 1}) {
      const ir::Type& other = op.operand(1 - i)->type();
      if (product_before(op, i) != nullptr && other.dtype == sum.dtype && other.shape == sum.shape &&
          other.layout == sum.layout)
        return i;
    }
    return -1;
  }
};

IPU_REGISTER_PASS(FuseIntoProducts, "fuse-into-products",
                  "Makes activations and residual sums the end of the products they alone read.",
                  {"activations joined", "addends joined", "biases joined"});

}  // namespace
}  // namespace ipu::passes
