// lstm_layer and its gradient: one layer of an LSTM in one direction, with or without a projection of its
// state (Sak et al., 2014), after the product of all inputs with the input weight. The gates are kept for the
// gradient, in the place of what they are made of. What the recurrent weights get is left to plain products.
#include <fmt/core.h>

#include "ops/definition/popart_operators.h"
#include "ops/definition/sample_types.h"
#include "ops/recurrent/recurrent_importers.h"
#include "ops/recurrent/recurrent_support.h"

namespace ipu::ops {
namespace {

struct In {
  enum : uint8_t { kX, kWeight, kH0, kC0, kProjection };
};
struct Out {
  enum : uint8_t { kGates, kY, kHn, kCn, kCells };
};
struct GradientIn {
  enum : uint8_t { kGates, kWeight, kCells, kC0, kProjection, kUpstream };
};

// Checks the projection, too.
LayerTypes lstm_types(const InferContext& c) {
  LayerTypes types = layer_types(c, 4, 4);
  if (c.has(In::kProjection))
    require_type(c, In::kProjection, "the projection", {types.dtype, {types.outputs, types.hidden}});
  else if (types.outputs != types.hidden)
    shape_error(fmt::format("without a projection the weight {} must have {} columns",
                            to_string(c.operand(In::kWeight).shape), types.hidden));
  return types;
}

std::vector<ir::Type> results_of(const LayerTypes& t) {
  return {t.rows(4 * t.hidden), t.rows(t.outputs), t.state(t.outputs), t.state(t.hidden), t.rows(t.hidden)};
}

void lstm_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(In::kX).type.shape, call.attributes);
  const size_t hidden = static_cast<size_t>(call.result(Out::kCells).type.shape[2]),
               outputs = static_cast<size_t>(call.result(Out::kY).type.shape[2]);
  std::vector<double> sums(4 * hidden), shown(hidden);
  for (int64_t b = 0; b < order.batch; ++b) {
    std::vector<double> h(outputs), c(hidden);
    if (const double* h0 = row_of(call, In::kH0, static_cast<size_t>(b))) std::copy_n(h0, outputs, h.begin());
    if (const double* c0 = row_of(call, In::kC0, static_cast<size_t>(b))) std::copy_n(c0, hidden, c.begin());
    for (int64_t step = 0; step < order.steps; ++step) {
      const size_t row = order.row(step, b);
      times_transpose(h.data(), call.operand(In::kWeight), sums.data());
      const double* x = row_of(call, In::kX, row);
      double* gates = row_of(call.result(Out::kGates), row);
      for (size_t k = 0; k < 4 * hidden; ++k)
        gates[k] = k / hidden == 2 ? std::tanh(x[k] + sums[k]) : sigmoid_of(x[k] + sums[k]);
      for (size_t k = 0; k < hidden; ++k) {
        c[k] = gates[hidden + k] * c[k] + gates[k] * gates[2 * hidden + k];
        shown[k] = gates[3 * hidden + k] * std::tanh(c[k]);
      }
      if (call.has(In::kProjection))
        times_transpose(shown.data(), call.operand(In::kProjection), h.data());
      else
        h = shown;
      std::copy(h.begin(), h.end(), row_of(call.result(Out::kY), row));
      std::copy(c.begin(), c.end(), row_of(call.result(Out::kCells), row));
    }
    std::copy(h.begin(), h.end(), row_of(call.result(Out::kHn), static_cast<size_t>(b)));
    std::copy(c.begin(), c.end(), row_of(call.result(Out::kCn), static_cast<size_t>(b)));
  }
}

void lstm_gradient_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(GradientIn::kGates).type.shape, call.attributes);
  const size_t hidden = static_cast<size_t>(call.operand(GradientIn::kCells).type.shape[2]),
               outputs = static_cast<size_t>(call.operand(GradientIn::kWeight).type.shape[1]);
  auto upstream = [&](int result, size_t row, size_t k) {
    const double* from = row_of(call, GradientIn::kUpstream + result, row);
    return from == nullptr ? 0.0 : from[k];
  };
  std::vector<double> d_shown(hidden);
  for (int64_t b = 0; b < order.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    std::vector<double> d_h(outputs), d_c(hidden);
    for (size_t k = 0; k < outputs; ++k) d_h[k] = upstream(Out::kHn, item, k);
    for (size_t k = 0; k < hidden; ++k) d_c[k] = upstream(Out::kCn, item, k);
    for (int64_t step = order.steps; step-- > 0;) {
      const size_t row = order.row(step, b);
      for (size_t k = 0; k < outputs; ++k) d_h[k] += upstream(Out::kY, row, k);
      if (call.has(GradientIn::kProjection))
        times(d_h.data(), call.operand(GradientIn::kProjection), d_shown.data());
      else
        d_shown = d_h;
      const double *gates = row_of(call, GradientIn::kGates, row),
                   *cells = row_of(call, GradientIn::kCells, row);
      const double* before = step > 0 ? row_of(call, GradientIn::kCells, order.row(step - 1, b))
                                      : row_of(call, GradientIn::kC0, item);
      double* d_x = row_of(call.result(0), row);
      for (size_t k = 0; k < hidden; ++k) {
        const double i = gates[k], f = gates[hidden + k], g = gates[2 * hidden + k],
                     o = gates[3 * hidden + k], shown = std::tanh(cells[k]);
        d_c[k] += upstream(Out::kCells, row, k) + d_shown[k] * o * (1 - shown * shown);
        auto gate = [&](size_t n, double own) { return own + upstream(Out::kGates, row, n * hidden + k); };
        d_x[k] = gate(0, d_c[k] * g) * i * (1 - i);
        d_x[hidden + k] = gate(1, before == nullptr ? 0.0 : d_c[k] * before[k]) * f * (1 - f);
        d_x[2 * hidden + k] = gate(2, d_c[k] * i) * (1 - g * g);
        d_x[3 * hidden + k] = gate(3, d_shown[k] * shown) * o * (1 - o);
        d_c[k] *= f;
      }
      times(d_x, call.operand(GradientIn::kWeight), d_h.data());
    }
    std::copy(d_h.begin(), d_h.end(), row_of(call.result(1), item));
    std::copy(d_c.begin(), d_c.end(), row_of(call.result(2), item));
  }
}

// Computes the gradient of the projection: the sum over all rows of (the gradient of y, plus what the next step passes
// back) times (output gate * tanh(cell)).
ir::Value* projection_gradient(GradientBuilder& g, ir::Value* d_x) {
  ir::Value* cells = g.result(Out::kCells);
  const Shape& shape = g.result_type(Out::kY).shape;
  const int64_t hidden = cells->type().shape[2];
  const TimeOrder order(shape, g.attributes());
  const int64_t time = order.batch_first ? 1 : 0;
  ir::Value* shown = g.mul(slice_of(g, g.result(Out::kGates), 2, 3 * hidden, hidden), g.op("tanh", {cells}));
  // What arrives at the state of each step through the weight: all but the first step's gradient, moved.
  ir::Value* last = g.upstream(Out::kHn);
  const Shape one = order.batch_first ? Shape{order.batch, 1, shape[2]} : Shape{1, order.batch, shape[2]};
  last = last == nullptr ? g.zeros({cells->type().dtype, one}) : g.reshape(last, one);
  ir::Value* arriving = last;
  if (order.steps > 1) {
    ir::Value* moved =
        g.op("linear_input_gradient",
             {slice_of(g, d_x, time, order.reverse ? 0 : 1, order.steps - 1), g.operand(In::kWeight)});
    arriving = order.reverse ? g.op("concat", {last, moved}, {{"dim", time}})
                             : g.op("concat", {moved, last}, {{"dim", time}});
  }
  if (g.upstream(Out::kY) != nullptr) arriving = g.add(arriving, g.upstream(Out::kY));
  return g.op("linear_weight_gradient", {shown, arriving});
}

void lstm_gradient(GradientBuilder& g) {
  auto optional = [&](int i) { return g.has_operand(i) ? g.operand(i) : nullptr; };
  const std::vector<ir::Value*> operands{
      g.result(Out::kGates),     g.operand(In::kWeight),  g.result(Out::kCells), optional(In::kC0),
      optional(In::kProjection), g.upstream(Out::kGates), g.upstream(Out::kY),   g.upstream(Out::kHn),
      g.upstream(Out::kCn),      g.upstream(Out::kCells)};
  ir::Op* gradient = build_op(g.builder(), "lstm_layer_gradient", operands, g.forward().attributes);
  ir::Value* d_x = gradient->result(0);
  g.set(In::kX, d_x);
  if (g.needs(In::kWeight))
    if (ir::Value* d_weight = recurrent_weight_gradient(g, g.result(Out::kY), optional(In::kH0), d_x))
      g.set(In::kWeight, d_weight);
  if (g.has_operand(In::kH0)) g.set(In::kH0, gradient->result(1));
  if (g.has_operand(In::kC0)) g.set(In::kC0, gradient->result(2));
  if (g.has_operand(In::kProjection) && g.needs(In::kProjection))
    g.set(In::kProjection, projection_gradient(g, d_x));
}

// x: input; layer: what torch's parameters are.
RecurrentState make_lstm(ImportCall& call, ir::Value* x, const RecurrentLayer& layer) {
  const std::vector<ir::Value*> operands{input_parts(call, x, layer, true), layer.recurrent_weight, layer.h0,
                                         layer.c0, layer.projection};
  ir::Op* op = build_op(call.builder(), "lstm_layer", operands,
                        {{"reverse", layer.reverse}, {"batch_first", layer.batch_first}});
  return {op->result(Out::kY), op->result(Out::kHn), op->result(Out::kCn)};
}

std::vector<Sample> lstm_samples() {
  const Attributes batch_first{{"batch_first", true}}, reverse{{"reverse", true}};
  return {
      {{f32({3, 2, 8}), f32({8, 2})}, {}},
      {{f32({4, 3, 20}), f32({20, 5}), f32({3, 5}), f32({3, 5})}, reverse},
      {{f32({2, 3, 12}), f32({12, 2}), f32({2, 2}), f32({2, 3}), f32({2, 3})}, batch_first},
      {{f32({1, 1, 4}), f32({4, 1}), std::nullopt, f32({1, 1})}, {}},
  };
}

// Gates and cells as some step may leave them.
std::vector<Sample> lstm_gradient_samples() {
  const std::map<int, std::pair<double, double>> ranges{{0, {0.1, 0.9}}};
  const std::optional<ir::Type> no;
  return {
      {{f32({3, 2, 8}), f32({8, 2}), f32({3, 2, 2}), no, no, no, f32({3, 2, 2})}, {}, -1, 1, ranges},
      {{f32({4, 3, 20}), f32({20, 5}), f32({4, 3, 5}), f32({3, 5}), no, f32({4, 3, 20}), f32({4, 3, 5}),
        f32({3, 5}), f32({3, 5}), f32({4, 3, 5})},
       {{"reverse", true}},
       -1,
       1,
       ranges},
      {{f32({2, 3, 12}), f32({12, 2}), f32({2, 3, 3}), no, f32({2, 3}), no, no, f32({2, 2}), f32({2, 3})},
       {{"batch_first", true}},
       -1,
       1,
       ranges},
  };
}

const OpRegistration lstm_layer =
    define_op("lstm_layer", "recurrent")
        .doc(
            "One layer of an LSTM in one direction. x_parts [T, B, 4H] is what comes from the input, biases "
            "included, for the gates input, forget, cell and output (torch's order); weight [4H, H]; h0, c0 "
            "[B, H], absent: zeros. Gives the gates and cells of all steps, y [T, B, H] and the states after "
            "the last step. With a projection [P, H] the state h has P elements: weight [4H, P], y "
            "[T, B, P]. batch_first: [B, T, ...]; reverse: the last time comes first.")
        .operand("x_parts", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("h0", kAnyFloat)
        .optional_operand("c0", kAnyFloat)
        .optional_operand("projection", kAnyFloat)
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("gates")
        .result("y")
        .result("h_n")
        .result("c_n")
        .result("cells")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const LayerTypes types = lstm_types(c);
          require_type(c, In::kH0, "h0", types.state(types.outputs));
          require_type(c, In::kC0, "c0", types.state(types.hidden));
          return results_of(types);
        })
        .gradient(lstm_gradient)
        .reference(lstm_reference)
        .work([](const ir::Op& op) {
          return layer_work(op, {{"Add", "Sigmoid"}, {"Mul", "Mul", "Add", "Tanh", "Mul"}}, false,
                            In::kProjection);
        })
        .from_aten({"lstm.input"}, [](AtenImportCall& call) { import_layers(call, make_lstm); })
        .from_onnx("LSTM", {6},
                   [](NodeImportCall& call) {
                     import_node_layers(call, {0, 2, 3, 1}, make_lstm);
                   })
        .samples(lstm_samples());

const OpRegistration lstm_layer_gradient =
    define_op("lstm_layer_gradient", "recurrent")
        .doc(
            "Gradient of lstm_layer for x_parts, h0 and c0, from what it kept and the gradients of its "
            "results. Those of the weights are products of these with the states.")
        .operand("gates", kAnyFloat)
        .operand("weight", kAnyFloat)
        .operand("cells", kAnyFloat)
        .optional_operand("c0", kAnyFloat)
        .optional_operand("projection", kAnyFloat)
        .optional_operand("d_gates", kAnyFloat)
        .optional_operand("d_y", kAnyFloat)
        .optional_operand("d_h_n", kAnyFloat)
        .optional_operand("d_c_n", kAnyFloat)
        .optional_operand("d_cells", kAnyFloat)
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("d_x_parts")
        .result("d_h0")
        .result("d_c0")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const LayerTypes types = lstm_types(c);
          const std::vector<ir::Type> results = results_of(types);
          require_type(c, GradientIn::kCells, "cells", results[Out::kCells]);
          require_type(c, GradientIn::kC0, "c0", results[Out::kCn]);
          for (int i = 0; i < static_cast<int>(results.size()); ++i)
            require_type(c, GradientIn::kUpstream + i, "the gradient of a result",
                         results[static_cast<size_t>(i)]);
          return std::vector<ir::Type>{results[Out::kGates], results[Out::kHn], results[Out::kCn]};
        })
        .gradient_refused("a recurrent layer can be differentiated once")
        .reference(lstm_gradient_reference)
        .work([](const ir::Op& op) {
          return layer_work(
              op, {{"Sub", "Mul", "Mul"}, {"Tanh", "Mul", "Mul", "Sub", "Mul", "Add", "Mul", "Mul"}}, true,
              GradientIn::kProjection);
        })
        .samples(lstm_gradient_samples());

const PopartOperators lstm_layer_popart = {{
    {"LSTM", "1 7", "X:F W:F R:F B:F sequence_lens:INT32 initial_h:F initial_c:F", "Y:F Y_h:F Y_c:F", "yes",
     "activation_alpha activation_beta activations clip direction=forward hidden_size "
     "output_sequence input_forget=0"},
}};

}  // namespace
}  // namespace ipu::ops
