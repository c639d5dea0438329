// mse_loss and l1_loss as compounds; other elementwise losses (smooth L1, Huber, binary cross-entropy, KL
// divergence) by importers that compose elementwise ops and end in identity_loss.
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
void import_rounded_l1(AtenImportCall& call, double width, double curve, double slope) {
  const LossOperands x = loss_operands(call);
  const DType dtype = x.a->type().dtype;
  const auto scalar = [&](double v) { return call.builder().scalar(dtype, v); };
  ir::Value* difference = call.op("sub", {x.a, x.b});
  ir::Value* distance = call.op("abs", {difference});
  ir::Value* near = call.op("mul", {call.op("mul", {difference, difference}), scalar(curve)});
  ir::Value* far = call.op("mul", {call.op("sub", {distance, scalar(0.5 * width)}), scalar(slope)});
  set_reduced_loss(call, call.op("where", {call.op("less", {distance, scalar(width)}), near, far}));
}

void import_smooth_l1(AtenImportCall& call) {
  const double beta = call.has("beta") ? call.real("beta") : 1.0;
  if (beta == 0.0) {
    return import_pair(call, "l1_loss", loss_operands(call));
  }
  import_rounded_l1(call, beta, 0.5 / beta, 1.0);
}

void import_huber(AtenImportCall& call) {
  const double delta = call.has("delta") ? call.real("delta") : 1.0;
  import_rounded_l1(call, delta, 0.5, delta);
}

ir::Value* weighted(AtenImportCall& call, ir::Value* losses) {
  if (!call.has("weight")) return losses;
  return call.op("mul", {losses, call.cast(call.tensor("weight"), losses->type().dtype)});
}

void import_binary_cross_entropy(AtenImportCall& call) {
  const LossOperands x = loss_operands(call);
  set_reduced_loss(call, weighted(call, call.op("binary_cross_entropy", {x.a, x.b})));
}

// (1 - t) * x + (1 + (pos_weight - 1) * t) * log(1 + exp(-x))
void import_with_logits(AtenImportCall& call) {
  const LossOperands x = loss_operands(call);
  const DType dtype = x.a->type().dtype;
  const auto scalar = [&](double v) { return call.builder().scalar(dtype, v); };
  ir::Value* penalty = call.op("neg", {call.op("log_sigmoid", {x.a})});
  if (call.has("pos_weight")) {
    ir::Value* extra = call.op("sub", {call.cast(call.tensor("pos_weight"), dtype), scalar(1.0)});
    penalty = call.op("mul", {penalty, call.op("add", {call.op("mul", {extra, x.b}), scalar(1.0)})});
  }
  ir::Value* losses = call.op("add", {call.op("mul", {call.op("sub", {scalar(1.0), x.b}), x.a}), penalty});
  set_reduced_loss(call, weighted(call, losses));
}

// t * (log t - x), 0 where t is 0; with log_target exp(t) * (t - x).
void import_kl_div(AtenImportCall& call) {
  const LossOperands x = loss_operands(call);
  const DType dtype = x.a->type().dtype;
  if (call.has("log_target") && call.boolean("log_target")) {
    return set_reduced_loss(call, call.op("mul", {call.op("exp", {x.b}), call.op("sub", {x.b, x.a})}));
  }
  ir::Value *zero = call.builder().scalar(dtype, 0.0), *one = call.builder().scalar(dtype, 1.0);
  ir::Value* empty = call.op("equal", {x.b, zero});
  ir::Value* logarithm = call.op("log", {call.op("where", {empty, one, x.b})});
  set_reduced_loss(call, call.op("mul", {x.b, call.op("sub", {logarithm, x.a})}));
}

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
        .from_aten({"binary_cross_entropy"}, import_binary_cross_entropy)
        .samples({{{ir::Type{DType::kF32, {2, 3}}, ir::Type{DType::kF32, {2, 3}}}, {}, 0.1, 0.9}});

struct Registrations {
  Registrations() {
    register_aten_importer("smooth_l1_loss", import_smooth_l1);
    register_aten_importer("huber_loss", import_huber);
    register_aten_importer("binary_cross_entropy_with_logits", import_with_logits);
    register_aten_importer("kl_div", import_kl_div);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
