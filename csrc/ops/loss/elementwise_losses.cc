// Elementwise losses, all compounds: mse_loss and l1_loss, whose gradients have rules; smooth L1, Huber,
// binary cross-entropy and KL divergence, whose gradients are those of what they stand for.
#include <cmath>

#include "ops/loss/loss_support.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> pair_loss_type(const InferContext& c) {
  require_same_dtype(c, 0, 1);
  require_same_shape(c, 0, 1);
  return {{c.operand(0).dtype, loss_shape(c, c.operand(0).shape)}};
}

template <typename Distance>
void pair_reference(ReferenceCall& call, Distance distance) {
  const std::vector<double>&a = call.operand(0).values, &b = call.operand(1).values;
  std::vector<double> losses(a.size());
  for (size_t i = 0; i < a.size(); ++i) losses[i] = distance(a[i] - b[i]);
  reduce_losses(call, losses, static_cast<double>(a.size()));
}

// Both operands get the same gradient with opposite signs.
void set_pair(GradientBuilder& g, ir::Value* gradient) {
  if (g.needs(0)) g.set(0, gradient);
  if (g.needs(1)) g.set(1, g.neg(gradient));
}

ir::Value* cast(ir::Value* value, DType dtype, ir::Builder& builder) {
  return value->type().dtype == dtype ? value : build(builder, "cast", {value}, {{"dtype", dtype}});
}

std::vector<ir::Value*> decompose_pair(ir::Op& op, bool squared) {
  ir::Builder builder(op.graph(), &op);
  builder.settings = op.settings;
  builder.location = op.location;
  builder.origin = op.origin;
  // One rounding, as the reference has.
  const DType dtype = op.result()->type().dtype, wide = dtype == DType::kF16 ? DType::kF32 : dtype;
  ir::Value* difference =
      build(builder, "sub", {cast(op.operand(0), wide, builder), cast(op.operand(1), wide, builder)});
  ir::Value* elements =
      squared ? build(builder, "mul", {difference, difference}) : build(builder, "abs", {difference});
  ir::Value* loss =
      build(builder, "identity_loss", {elements}, {{"reduction", op.attributes.text("reduction", "mean")}});
  return {cast(loss, dtype, builder)};
}

void import_pair(AtenImportCall& call, const std::string& name, const LossOperands& x) {
  ir::Value* loss = call.op(name, {x.a, x.b}, {{"reduction", reduction_word(call)}});
  call.set_result(0, call.cast(loss, call.result_type(0).dtype));
}

OpDefBuilder pair_loss(std::string name, bool squared, std::string doc) {
  OpDefBuilder builder = define_op(name, "loss");
  const ir::Type x{DType::kF32, {2, 3}};
  builder.doc(std::move(doc))
      .operand("a", kAnyFloat)
      .operand("b", kAnyFloat)
      .attribute("reduction", std::string("mean"))
      .result("loss")
      .traits(kLoss | kCompound)
      .infer(pair_loss_type)
      .decompose([squared](ir::Op& op) { return decompose_pair(op, squared); })
      .kernels([](const ir::Op&) { return std::vector<KernelChoice>{}; })  // always decomposed
      .from_aten({name}, [name](AtenImportCall& call) { import_pair(call, name, loss_operands(call)); })
      .samples({{{x, x}, {}},
                {{x, x}, {{"reduction", std::string("sum")}}},
                {{x, x}, {{"reduction", std::string("none")}}}});
  return builder;
}

const OpRegistration mse_loss =
    pair_loss("mse_loss", true, "Squared difference of a and b, reduced.")
        .gradient([](GradientBuilder& g) {
          ir::Value* difference = g.sub(g.operand(0), g.operand(1));
          set_pair(g, g.mul(g.scale(difference, 2.0), spread_upstream(g, g.operand_type(0).shape)));
        })
        .reference([](ReferenceCall& call) { pair_reference(call, [](double d) { return d * d; }); });

const OpRegistration l1_loss =
    pair_loss("l1_loss", false, "Absolute difference of a and b, reduced; no gradient where they are equal.")
        .gradient([](GradientBuilder& g) {
          ir::Value* direction = g.op("sign", {g.sub(g.operand(0), g.operand(1))});
          set_pair(g, g.mul(direction, spread_upstream(g, g.operand_type(0).shape)));
        })
        .reference([](ReferenceCall& call) { pair_reference(call, [](double d) { return std::abs(d); }); });

// |d| < width ? d^2 * curve : slope * (|d| - width / 2)
ir::Value* rounded_l1(Composer& c, double width, double curve, double slope) {
  ir::Value* difference = c.sub(c.operand(0), c.operand(1));
  ir::Value* distance = c.op("abs", {difference});
  ir::Value* near = c.mul(c.mul(difference, difference), c.scalar_like(difference, curve));
  ir::Value* far =
      c.mul(c.sub(distance, c.scalar_like(distance, 0.5 * width)), c.scalar_like(distance, slope));
  return c.op("where", {c.op("less", {distance, c.scalar_like(distance, width)}), near, far});
}

// Both tensors first, in the dtype losses are computed in.
std::vector<ir::Value*> operands_of(AtenImportCall& call) {
  const LossOperands x = loss_operands(call);
  return {x.a, x.b};
}

ir::Value* optional_of(AtenImportCall& call, std::string_view name, const ir::Value* like) {
  return call.has(name) ? call.cast(call.tensor(name), like->type().dtype) : nullptr;
}

void import_smooth_l1(AtenImportCall& call) {
  const double beta = call.has("beta") ? call.real("beta") : 1.0;
  if (beta == 0.0) return import_pair(call, "l1_loss", loss_operands(call));
  import_loss(call, "smooth_l1_loss", operands_of(call), {{"beta", beta}});
}

void import_huber(AtenImportCall& call) {
  import_loss(call, "huber_loss", operands_of(call),
              {{"delta", call.has("delta") ? call.real("delta") : 1.0}});
}

void import_binary_cross_entropy(AtenImportCall& call) {
  std::vector<ir::Value*> operands = operands_of(call);
  operands.push_back(optional_of(call, "weight", operands[0]));
  import_loss(call, "binary_cross_entropy_loss", operands);
}

void import_with_logits(AtenImportCall& call) {
  std::vector<ir::Value*> operands = operands_of(call);
  for (const char* name : {"weight", "pos_weight"}) operands.push_back(optional_of(call, name, operands[0]));
  import_loss(call, "binary_cross_entropy_with_logits", operands);
}

void import_kl_div(AtenImportCall& call) {
  import_loss(call, "kl_div_loss", operands_of(call),
              {{"log_target", call.has("log_target") && call.boolean("log_target")}});
}

ir::Value* weighted(Composer& c, ir::Value* losses) {
  return c.has(2) ? c.mul(losses, c.operand(2)) : losses;
}

// (1 - t) * x + (1 + (pos_weight - 1) * t) * log(1 + exp(-x))
ir::Value* with_logits(Composer& c) {
  ir::Value *x = c.operand(0), *t = c.operand(1), *one = c.scalar_like(x, 1.0);
  ir::Value* penalty = c.op("neg", {c.op("log_sigmoid", {x})});
  if (c.has(3)) penalty = c.mul(penalty, c.add(c.mul(c.sub(c.operand(3), one), t), one));
  return weighted(c, c.add(c.mul(c.sub(one, t), x), penalty));
}

// t * (log t - x), 0 where t is 0; with log_target exp(t) * (t - x).
ir::Value* divergence(Composer& c) {
  ir::Value *x = c.operand(0), *t = c.operand(1);
  if (c.attributes().boolean("log_target")) return c.mul(c.op("exp", {t}), c.sub(t, x));
  ir::Value *zero = c.scalar_like(t, 0.0), *one = c.scalar_like(t, 1.0);
  ir::Value* logarithm = c.op("log", {c.op("where", {c.op("equal", {t, zero}), one, t})});
  return c.mul(t, c.sub(logarithm, x));
}

const ir::Type kPair{DType::kF32, {2, 3}};

const OpRegistration smooth_l1_loss =
    composed_loss(
        "smooth_l1_loss",
        [](Composer& c) {
          const double beta = c.attributes().real("beta");
          return rounded_l1(c, beta, 0.5 / beta, 1.0);
        },
        broadcast_of_operands)
        .doc("d^2 / (2 * beta) where |d| < beta, |d| - beta / 2 elsewhere, of the difference d of a and b.")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .attribute("beta", 1.0)
        .from_aten({"smooth_l1_loss"}, import_smooth_l1)
        .samples(loss_samples({kPair, kPair}, {{"beta", 0.3}}));

const OpRegistration huber_loss =
    composed_loss(
        "huber_loss",
        [](Composer& c) {
          const double delta = c.attributes().real("delta");
          return rounded_l1(c, delta, 0.5, delta);
        },
        broadcast_of_operands)
        .doc(
            "d^2 / 2 where |d| < delta, delta * (|d| - delta / 2) elsewhere, of the difference d of a and b.")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .attribute("delta", 1.0)
        .from_aten({"huber_loss"}, import_huber)
        .samples(loss_samples({kPair, kPair}, {{"delta", 0.4}}));

const OpRegistration binary_cross_entropy_loss =
    composed_loss(
        "binary_cross_entropy_loss",
        [](Composer& c) {
          return weighted(c, c.op("binary_cross_entropy", {c.operand(0), c.operand(1)}));
        },
        broadcast_of_operands)
        .doc("binary_cross_entropy of the probabilities x and target, times weight, reduced.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .from_aten({"binary_cross_entropy"}, import_binary_cross_entropy)
        .samples(loss_samples({kPair, kPair, ir::Type{DType::kF32, {3}}}, {}, 0.1, 0.9))
        .samples(loss_samples({kPair, kPair}, {}, 0.1, 0.9));

const OpRegistration binary_cross_entropy_with_logits =
    composed_loss("binary_cross_entropy_with_logits", with_logits, broadcast_of_operands)
        .doc(
            "(1 - t) * x + (1 + (pos_weight - 1) * t) * log(1 + exp(-x)) of the scores x and the target t, "
            "times weight, reduced.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .optional_operand("pos_weight", kAnyFloat)
        .from_aten({"binary_cross_entropy_with_logits"}, import_with_logits)
        .samples(loss_samples({kPair, kPair, std::nullopt, ir::Type{DType::kF32, {3}}}))
        .samples(loss_samples({kPair, kPair, kPair}));

const OpRegistration kl_div_loss =
    composed_loss("kl_div_loss", divergence, broadcast_of_operands)
        .doc(
            "t * (log t - x) of log-probabilities x and probabilities t, 0 where t is 0; with log_target "
            "exp(t) * (t - x).")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("log_target", false)
        .from_aten({"kl_div"}, import_kl_div)
        .samples(loss_samples({kPair, kPair}, {}, 0.1, 0.9))
        .samples(loss_samples({kPair, kPair}, {{"log_target", true}}));

// An op of its own because its gradient is stable where that of the composed expression is not.
const OpRegistration binary_cross_entropy =
    define_op("binary_cross_entropy", "loss")
        .doc("-(t log x + (1 - t) log(1 - x)) of a probability x, each logarithm at least -100.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr &x = in[0], &t = in[1];
          const Expr floor = Expr::constant(x.dtype(), -100.0);
          const Expr yes = binary(Func::kMax, unary(Func::kLog, x), floor);
          const Expr no = binary(Func::kMax, unary(Func::kLog1p, -x), floor);
          return (t - 1.0) * no - t * yes;
        })
        .gradient([](GradientBuilder& g) {
          ir::Value *x = g.operand(0), *t = g.operand(1), *dy = g.upstream();
          ir::Value* rest = g.sub(g.scalar_like(x, 1.0), x);
          if (g.needs(0)) {
            ir::Value* spread = g.op("maximum", {g.mul(rest, x), g.scalar_like(x, 1e-12)});
            g.set_reduced(0, g.div(g.mul(dy, g.sub(x, t)), spread));
          }
          if (g.needs(1)) {
            g.set_reduced(1, g.mul(dy, g.sub(g.op("log", {rest}), g.op("log", {x}))));
          }
        })
        .samples({{{ir::Type{DType::kF32, {2, 3}}, ir::Type{DType::kF32, {2, 3}}}, {}, 0.1, 0.9}});

}  // namespace
}  // namespace ipu::ops
