// gru_layer and its gradient: one layer of a GRU in one direction, as torch defines it (the reset gate scales
// what the state gives, bias included), after the product of all inputs with the input weight.
#include "ops/definition/popart_operators.h"
#include "ops/definition/sample_types.h"
#include "ops/recurrent/recurrent_importers.h"
#include "ops/recurrent/recurrent_support.h"

namespace ipu::ops {
namespace {

struct In {
  enum : uint8_t { kX, kWeight, kH0, kBias };
};
struct Out {
  enum : uint8_t { kGates, kY, kHn, kInner };
};
struct GradientIn {
  enum : uint8_t { kGates, kWeight, kInner, kY, kH0, kUpstream };
};

LayerTypes gru_types(const InferContext& c) {
  const LayerTypes types = layer_types(c, 3, 3);
  require_type(c, In::kWeight, "the weight", {types.dtype, {3 * types.hidden, types.hidden}});
  return types;
}

std::vector<ir::Type> results_of(const LayerTypes& t) {
  return {t.rows(3 * t.hidden), t.rows(t.hidden), t.state(t.hidden), t.rows(t.hidden)};
}

void gru_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(In::kX).type.shape, call.attributes);
  const auto hidden = static_cast<size_t>(call.result(Out::kY).type.shape[2]);
  std::vector<double> sums(3 * hidden);
  const double* bias = row_of(call, In::kBias, 0);
  for (int64_t b = 0; b < order.batch; ++b) {
    std::vector<double> h(hidden);
    if (const double* h0 = row_of(call, In::kH0, static_cast<size_t>(b))) std::copy_n(h0, hidden, h.begin());
    for (int64_t step = 0; step < order.steps; ++step) {
      const size_t row = order.row(step, b);
      times_transpose(h.data(), call.operand(In::kWeight), sums.data());
      for (size_t k = 0; bias != nullptr && k < sums.size(); ++k) sums[k] += bias[k];
      const double* x = row_of(call, In::kX, row);
      double *gates = row_of(call.result(Out::kGates), row), *inner = row_of(call.result(Out::kInner), row);
      for (size_t k = 0; k < hidden; ++k) {
        const double reset = sigmoid_of(x[k] + sums[k]),
                     update = sigmoid_of(x[hidden + k] + sums[hidden + k]);
        inner[k] = sums[2 * hidden + k];
        gates[k] = reset;
        gates[hidden + k] = update;
        gates[2 * hidden + k] = std::tanh(x[2 * hidden + k] + reset * inner[k]);
        h[k] = (1 - update) * gates[2 * hidden + k] + update * h[k];
      }
      std::copy(h.begin(), h.end(), row_of(call.result(Out::kY), row));
    }
    std::copy(h.begin(), h.end(), row_of(call.result(Out::kHn), static_cast<size_t>(b)));
  }
}

void gru_gradient_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(GradientIn::kGates).type.shape, call.attributes);
  const auto hidden = static_cast<size_t>(call.operand(GradientIn::kInner).type.shape[2]);
  auto upstream = [&](int result, size_t row, size_t k) {
    const double* from = row_of(call, GradientIn::kUpstream + result, row);
    return from == nullptr ? 0.0 : from[k];
  };
  std::vector<double> through(hidden);
  for (int64_t b = 0; b < order.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    std::vector<double> d_h(hidden);
    for (size_t k = 0; k < hidden; ++k) d_h[k] = upstream(Out::kHn, item, k);
    for (int64_t step = order.steps; step-- > 0;) {
      const size_t row = order.row(step, b);
      const double *gates = row_of(call, GradientIn::kGates, row),
                   *inner = row_of(call, GradientIn::kInner, row);
      const double* before = step > 0 ? row_of(call, GradientIn::kY, order.row(step - 1, b))
                                      : row_of(call, GradientIn::kH0, item);
      double *d_x = row_of(call.result(0), row), *d_sums = row_of(call.result(1), row);
      for (size_t k = 0; k < hidden; ++k) {
        const double reset = gates[k], update = gates[hidden + k], made = gates[2 * hidden + k];
        d_h[k] += upstream(Out::kY, row, k);
        const double d_made =
            (d_h[k] * (1 - update) + upstream(Out::kGates, row, 2 * hidden + k)) * (1 - made * made);
        const double d_update =
            d_h[k] * ((before == nullptr ? 0.0 : before[k]) - made) + upstream(Out::kGates, row, hidden + k);
        const double d_reset = d_made * inner[k] + upstream(Out::kGates, row, k);
        d_x[k] = d_sums[k] = d_reset * reset * (1 - reset);
        d_x[hidden + k] = d_sums[hidden + k] = d_update * update * (1 - update);
        d_x[2 * hidden + k] = d_made;
        d_sums[2 * hidden + k] = d_made * reset + upstream(Out::kInner, row, k);
        d_h[k] *= update;
      }
      times(d_sums, call.operand(GradientIn::kWeight), through.data());
      for (size_t k = 0; k < hidden; ++k) d_h[k] += through[k];
    }
    std::copy(d_h.begin(), d_h.end(), row_of(call.result(2), item));
  }
}

void gru_gradient(GradientBuilder& g) {
  ir::Value* h0 = g.has_operand(In::kH0) ? g.operand(In::kH0) : nullptr;
  const std::vector<ir::Value*> operands{
      g.result(Out::kGates),   g.operand(In::kWeight), g.result(Out::kInner), g.result(Out::kY),      h0,
      g.upstream(Out::kGates), g.upstream(Out::kY),    g.upstream(Out::kHn),  g.upstream(Out::kInner)};
  ir::Op* gradient = build_op(g.builder(), "gru_layer_gradient", operands, g.forward().attributes);
  ir::Value* d_sums = gradient->result(1);
  g.set(In::kX, gradient->result(0));
  if (g.needs(In::kWeight))
    if (ir::Value* d_weight = recurrent_weight_gradient(g, g.result(Out::kY), h0, d_sums))
      g.set(In::kWeight, d_weight);
  if (h0 != nullptr) g.set(In::kH0, gradient->result(2));
  if (g.has_operand(In::kBias) && g.needs(In::kBias)) g.set(In::kBias, g.sum(d_sums, {0, 1}, false));
}

RecurrentState make_gru(ImportCall& call, ir::Value* x, const RecurrentLayer& layer) {
  const std::vector<ir::Value*> operands{input_parts(call, x, layer, false), layer.recurrent_weight, layer.h0,
                                         layer.recurrent_bias};
  ir::Op* op = build_op(call.builder(), "gru_layer", operands,
                        {{"reverse", layer.reverse}, {"batch_first", layer.batch_first}});
  return {op->result(Out::kY), op->result(Out::kHn), nullptr};
}

std::vector<Sample> gru_gradient_samples() {
  const std::map<int, std::pair<double, double>> ranges{{0, {0.1, 0.9}}};
  const std::optional<ir::Type> no;
  return {
      {{f32({3, 2, 6}), f32({6, 2}), f32({3, 2, 2}), f32({3, 2, 2}), no, no, f32({3, 2, 2})},
       {},
       -1,
       1,
       ranges},
      {{f32({3, 4, 15}), f32({15, 5}), f32({3, 4, 5}), f32({3, 4, 5}), f32({3, 5}), f32({3, 4, 15}),
        f32({3, 4, 5}), f32({3, 5}), f32({3, 4, 5})},
       {{"reverse", true}, {"batch_first", true}},
       -1,
       1,
       ranges},
  };
}

const OpRegistration gru_layer =
    define_op("gru_layer", "recurrent")
        .doc(
            "One layer of a GRU in one direction. x_parts [T, B, 3H] is what comes from the input, its bias "
            "included, for the gates reset, update and new (torch's order); weight [3H, H]; bias [3H] of what "
            "comes from the state; h0 [B, H], absent: zeros. Gives the gates of all steps, y [T, B, H], the "
            "state after the last step, and what the reset gates scaled. batch_first: [B, T, ...]; reverse: "
            "the last time comes first.")
        .operand("x_parts", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("h0", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("gates")
        .result("y")
        .result("h_n")
        .result("inner")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const LayerTypes types = gru_types(c);
          require_type(c, In::kH0, "h0", types.state(types.hidden));
          require_type(c, In::kBias, "the bias", {types.dtype, {3 * types.hidden}});
          return results_of(types);
        })
        .gradient(gru_gradient)
        .reference(gru_reference)
        .work([](const ir::Op& op) {
          return layer_work(op, {{"Add", "Sigmoid"}, {"Mul", "Add", "Tanh", "Sub", "Mul", "Add"}}, false);
        })
        .from_aten({"gru.input"}, [](AtenImportCall& call) { import_layers(call, make_gru); })
        .from_onnx("GRU", {6},
                   [](NodeImportCall& call) {
                     import_node_layers(call, {1, 0, 2}, make_gru);
                   })
        .samples({{{f32({3, 2, 6}), f32({6, 2})}, {}},
                  {{f32({3, 4, 15}), f32({15, 5}), f32({3, 5}), f32({15})},
                   {{"reverse", true}, {"batch_first", true}}},
                  {{f32({1, 1, 3}), f32({3, 1}), std::nullopt, f32({3})}, {}}});

const OpRegistration gru_layer_gradient =
    define_op("gru_layer_gradient", "recurrent")
        .doc(
            "Gradient of gru_layer for x_parts, for what the weight and the bias gave, and for h0, from what "
            "it kept and the gradients of its results.")
        .operand("gates", kAnyFloat)
        .operand("weight", kAnyFloat)
        .operand("inner", kAnyFloat)
        .operand("y", kAnyFloat)
        .optional_operand("h0", kAnyFloat)
        .optional_operand("d_gates", kAnyFloat)
        .optional_operand("d_y", kAnyFloat)
        .optional_operand("d_h_n", kAnyFloat)
        .optional_operand("d_inner", kAnyFloat)
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("d_x_parts")
        .result("d_sums")
        .result("d_h0")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const std::vector<ir::Type> results = results_of(gru_types(c));
          require_type(c, GradientIn::kInner, "inner", results[Out::kInner]);
          require_type(c, GradientIn::kY, "y", results[Out::kY]);
          require_type(c, GradientIn::kH0, "h0", results[Out::kHn]);
          for (int i = 0; i < static_cast<int>(results.size()); ++i)
            require_type(c, GradientIn::kUpstream + i, "the gradient of a result",
                         results[static_cast<size_t>(i)]);
          return std::vector<ir::Type>{results[Out::kGates], results[Out::kGates], results[Out::kHn]};
        })
        .gradient_refused("a recurrent layer can be differentiated once")
        .reference(gru_gradient_reference)
        .work([](const ir::Op& op) {
          return layer_work(op, {{"Sub", "Mul", "Mul"}, {"Sub", "Mul", "Mul", "Sub", "Mul", "Mul", "Add"}},
                            true);
        })
        .samples(gru_gradient_samples());

const PopartOperators gru_layer_popart = {{
    {"GRU", "3 7", "X:F W:F R:F B:F sequence_lens:INT32 initial_h:F", "Y:F Y_h:F", "yes",
     "activation_alpha activation_beta activations clip direction=forward hidden_size "
     "output_sequence linear_before_reset"},
}};

}  // namespace
}  // namespace ipu::ops
