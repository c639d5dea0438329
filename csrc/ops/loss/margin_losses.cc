// Losses that compare with a margin or a rate, compounds of elementwise ops and norms: hinge embedding, margin
// ranking, soft margin, cosine embedding, triplet margin, Poisson. torch decomposes most of them itself; they
// are taken whole so that their result counts as a loss.
#include <cmath>
#include <numbers>

#include "ops/definition/sample_types.h"
#include "ops/loss/loss_support.h"
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

// Arithmetic of one loss, on values of one dtype.
class Formula {
 public:
  explicit Formula(Composer& c) : c_(c), dtype_(c.operand(0)->type().dtype) {}

  ir::Value* scalar(double v) { return c_.scalar(dtype_, v); }
  ir::Value* attribute(std::string_view name) { return scalar(c_.attributes().real(name)); }
  // At 0 torch's clamp passes the gradient on; maximum would share it.
  ir::Value* at_least_zero(ir::Value* x) { return c_.op("clamp", {x}, {{"min", 0.0}}); }
  // x where target is `number`, 0 elsewhere.
  ir::Value* where_target(std::string_view comparison, ir::Value* target, double number, ir::Value* x) {
    return c_.op("where", {c_.op(comparison, {target, scalar(number)}), x, scalar(0.0)});
  }

 private:
  Composer& c_;
  DType dtype_;
};

// x for targets other than -1, the part of x below the margin for targets other than 1.
ir::Value* hinge_embedding(Composer& c) {
  Formula f(c);
  ir::Value *x = c.operand(0), *target = c.operand(1);
  ir::Value* below = f.at_least_zero(c.sub(f.attribute("margin"), x));
  return c.add(f.where_target("not_equal", target, 1.0, below), f.where_target("not_equal", target, -1.0, x));
}

ir::Value* margin_ranking(Composer& c) {
  Formula f(c);
  ir::Value* difference = c.sub(c.operand(0), c.operand(1));
  ir::Value* wrong = c.op("neg", {c.mul(c.operand(2), difference)});
  return f.at_least_zero(c.add(wrong, f.attribute("margin")));
}

ir::Value* soft_margin(Composer& c) {
  return c.op("neg", {c.op("log_sigmoid", {c.mul(c.operand(0), c.operand(1))})});
}

ir::Value* cosine_embedding(Composer& c) {
  Formula f(c);
  ir::Value *a = c.operand(0), *b = c.operand(1), *target = c.operand(2);
  const auto sum = [&](ir::Value* x) {
    const int64_t last = static_cast<int64_t>(x->type().shape.size()) - 1;
    return c.reduce("reduce_sum", x, {last}, false);
  };
  ir::Value* epsilon = f.scalar(1e-12);
  ir::Value* sizes = c.mul(c.add(sum(c.mul(a, a)), epsilon), c.add(sum(c.mul(b, b)), epsilon));
  ir::Value* cosine = c.op("div", {sum(c.mul(a, b)), c.op("sqrt", {sizes})});
  ir::Value* apart = f.at_least_zero(c.sub(cosine, f.attribute("margin")));
  return c.add(f.where_target("equal", target, 1.0, c.sub(f.scalar(1.0), cosine)),
               f.where_target("equal", target, -1.0, apart));
}

ir::Value* triplet_margin(Composer& c) {
  Formula f(c);
  ir::Value *anchor = c.operand(0), *positive = c.operand(1), *negative = c.operand(2);
  const double p = c.attributes().real("p");
  const auto distance = [&](ir::Value* a, ir::Value* b) {
    ir::Value* difference = c.add(c.sub(a, b), f.attribute("eps"));
    return vector_norm(c.builder(), difference, p,
                       {static_cast<int64_t>(difference->type().shape.size()) - 1}, false);
  };
  ir::Value* far = distance(anchor, negative);
  if (c.attributes().boolean("swap")) far = c.op("minimum", {far, distance(positive, negative)});
  ir::Value* margin = f.attribute("margin");
  return f.at_least_zero(c.sub(c.add(margin, distance(anchor, positive)), far));
}

// Rate minus count * log(rate); `full` adds Stirling's approximation of log(count!) for counts above 1.
ir::Value* poisson_nll(Composer& c) {
  Formula f(c);
  ir::Value *x = c.operand(0), *target = c.operand(1), *losses = nullptr;
  if (c.attributes().boolean("log_input")) {
    losses = c.sub(c.op("exp", {x}), c.mul(target, x));
  } else {
    losses = c.sub(x, c.mul(target, c.op("log", {c.add(x, f.attribute("eps"))})));
  }
  if (!c.attributes().boolean("full")) return losses;
  ir::Value* many = c.op("greater", {target, f.scalar(1.0)});
  ir::Value* count = c.op("where", {many, target, f.scalar(1.0)});
  ir::Value* spread = c.op("log", {c.mul(count, f.scalar(2.0 * std::numbers::pi))});
  ir::Value* stirling = c.add(c.sub(c.mul(count, c.op("log", {count})), count), c.mul(spread, f.scalar(0.5)));
  return c.add(losses, c.op("where", {many, stirling, f.scalar(0.0)}));
}

// Vectors a and b along the last dimension, which the losses do not have.
Shape one_per_vector(const InferContext& c, int vectors) {
  Shape shape = c.operand(0).shape;
  for (int i = 1; i < vectors; ++i) shape = broadcast_shapes(shape, c.operand(i).shape);
  if (shape.empty()) shape_error("vectors have at least one dimension");
  shape.pop_back();
  return shape;
}

// --- importers: tensors by name, numbers by name with torch's default.

std::vector<ir::Value*> tensors_of(AtenImportCall& call, std::initializer_list<std::string_view> names) {
  std::vector<ir::Value*> values;
  for (const std::string_view name : names)
    values.push_back(call.cast(call.tensor(name), call.result_type(0).dtype));
  return values;
}
double number(AtenImportCall& call, std::string_view name, double fallback) {
  return call.has(name) ? call.real(name) : fallback;
}

const ir::Type kMatrix{DType::kF32, {2, 3}};

const OpRegistration hinge_embedding_loss =
    composed_loss("hinge_embedding_loss", hinge_embedding, broadcast_of_operands)
        .doc("x for targets other than -1, plus max(0, margin - x) for targets other than 1.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("margin", 1.0)
        .from_aten({"hinge_embedding_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "hinge_embedding_loss", tensors_of(call, {"self", "target"}),
                                 {{"margin", number(call, "margin", 1.0)}});
                   })
        .samples(loss_samples({kMatrix, kMatrix}));

const OpRegistration margin_ranking_loss =
    composed_loss("margin_ranking_loss", margin_ranking, broadcast_of_operands)
        .doc("max(0, margin - target * (a - b)).")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("margin", 0.0)
        .from_aten({"margin_ranking_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "margin_ranking_loss",
                                 tensors_of(call, {"input1", "input2", "target"}),
                                 {{"margin", number(call, "margin", 0.0)}});
                   })
        .samples(loss_samples({kMatrix, kMatrix, kMatrix}, {{"margin", 0.2}}));

const OpRegistration soft_margin_loss =
    composed_loss("soft_margin_loss", soft_margin, broadcast_of_operands)
        .doc("log(1 + exp(-target * x)).")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .from_aten({"soft_margin_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "soft_margin_loss", tensors_of(call, {"self", "target"}));
                   })
        .samples(loss_samples({kMatrix, kMatrix}));

const OpRegistration cosine_embedding_loss =
    composed_loss(
        "cosine_embedding_loss", cosine_embedding,
        [](const InferContext& c) { return broadcast_shapes(one_per_vector(c, 2), c.operand(2).shape); })
        .doc(
            "1 - cos(a, b) for targets of 1, max(0, cos(a, b) - margin) for targets of -1, of vectors along "
            "the last dimension.")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("margin", 0.0)
        .from_aten({"cosine_embedding_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "cosine_embedding_loss",
                                 tensors_of(call, {"input1", "input2", "target"}),
                                 {{"margin", number(call, "margin", 0.0)}});
                   })
        .samples(loss_samples({kMatrix, kMatrix, ir::Type{DType::kF32, {2}}}));

const OpRegistration triplet_margin_loss =
    composed_loss("triplet_margin_loss", triplet_margin,
                  [](const InferContext& c) { return one_per_vector(c, 3); })
        .doc(
            "max(0, margin + |anchor - positive| - |anchor - negative|) with p-norms along the last "
            "dimension; swap: the smaller of the distances of anchor and positive to negative.")
        .operand("anchor", kAnyFloat)
        .operand("positive", kAnyFloat)
        .operand("negative", kAnyFloat)
        .attribute("margin", 1.0)
        .attribute("p", 2.0)
        .attribute("eps", 1e-6)
        .attribute("swap", false)
        .from_aten({"triplet_margin_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "triplet_margin_loss",
                                 tensors_of(call, {"anchor", "positive", "negative"}),
                                 {{"margin", number(call, "margin", 1.0)},
                                  {"p", number(call, "p", 2.0)},
                                  {"eps", number(call, "eps", 1e-6)},
                                  {"swap", call.has("swap") && call.boolean("swap")}});
                   })
        .samples(loss_samples({kMatrix, kMatrix, kMatrix}))
        .samples(loss_samples({kMatrix, kMatrix, kMatrix}, {{"p", 3.0}, {"swap", true}}));

const OpRegistration poisson_nll_loss =
    composed_loss("poisson_nll_loss", poisson_nll, broadcast_of_operands)
        .doc(
            "exp(x) - target * x with log_input, x - target * log(x + eps) without; full adds Stirling's "
            "approximation of log(target!) for targets above 1.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("log_input", true)
        .attribute("full", false)
        .attribute("eps", 1e-8)
        .from_aten({"poisson_nll_loss"},
                   [](AtenImportCall& call) {
                     import_loss(call, "poisson_nll_loss", tensors_of(call, {"input", "target"}),
                                 {{"log_input", call.boolean("log_input")},
                                  {"full", call.boolean("full")},
                                  {"eps", call.real("eps")}});
                   })
        .samples(loss_samples({kMatrix, kMatrix}))
        .samples(loss_samples({kMatrix, kMatrix}, {{"log_input", false}, {"full", true}}, 0.2, 3.0));

}  // namespace
}  // namespace ipu::ops
