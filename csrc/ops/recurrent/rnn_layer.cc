// rnn_layer and its gradient: one layer of a plain recurrent net in one direction, with tanh or relu, after the
// product of all inputs with the input weight.
#include "ops/definition/popart_operators.h"
#include "ops/definition/sample_types.h"
#include "ops/recurrent/recurrent_importers.h"
#include "ops/recurrent/recurrent_support.h"

namespace ipu::ops {
namespace {

struct In {
  enum : uint8_t { kX, kWeight, kH0 };
};
struct Out {
  enum : uint8_t { kY, kHn };
};
struct GradientIn {
  enum : uint8_t { kY, kWeight, kUpstreamY, kUpstreamHn };
};

LayerTypes rnn_types(const InferContext& c) {
  one_of(c, "activation", {"tanh", "relu"});
  const LayerTypes types = layer_types(c, 1, 1);
  require_type(c, In::kWeight, "the weight", {types.dtype, {types.hidden, types.hidden}});
  return types;
}

bool is_relu(const ReferenceCall& call) { return call.attributes.text("activation") == "relu"; }

void rnn_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(In::kX).type.shape, call.attributes);
  const auto hidden = static_cast<size_t>(call.result(Out::kY).type.shape[2]);
  std::vector<double> sums(hidden);
  for (int64_t b = 0; b < order.batch; ++b) {
    std::vector<double> h(hidden);
    if (const double* h0 = row_of(call, In::kH0, static_cast<size_t>(b))) std::copy_n(h0, hidden, h.begin());
    for (int64_t step = 0; step < order.steps; ++step) {
      const size_t row = order.row(step, b);
      times_transpose(h.data(), call.operand(In::kWeight), sums.data());
      const double* x = row_of(call, In::kX, row);
      for (size_t k = 0; k < hidden; ++k)
        h[k] = is_relu(call) ? std::max(x[k] + sums[k], 0.0) : std::tanh(x[k] + sums[k]);
      std::copy(h.begin(), h.end(), row_of(call.result(Out::kY), row));
    }
    std::copy(h.begin(), h.end(), row_of(call.result(Out::kHn), static_cast<size_t>(b)));
  }
}

void rnn_gradient_reference(ReferenceCall& call) {
  const TimeOrder order(call.operand(GradientIn::kY).type.shape, call.attributes);
  const auto hidden = static_cast<size_t>(call.operand(GradientIn::kY).type.shape[2]);
  for (int64_t b = 0; b < order.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    std::vector<double> d_h(hidden);
    if (const double* d_h_n = row_of(call, GradientIn::kUpstreamHn, item))
      std::copy_n(d_h_n, hidden, d_h.begin());
    for (int64_t step = order.steps; step-- > 0;) {
      const size_t row = order.row(step, b);
      const double *y = row_of(call, GradientIn::kY, row), *d_y = row_of(call, GradientIn::kUpstreamY, row);
      double* d_x = row_of(call.result(0), row);
      for (size_t k = 0; k < hidden; ++k) {
        const double d = d_h[k] + (d_y == nullptr ? 0.0 : d_y[k]);
        d_x[k] = is_relu(call) ? (y[k] <= 0 ? 0.0 : d) : d * (1 - y[k] * y[k]);
      }
      times(d_x, call.operand(GradientIn::kWeight), d_h.data());
    }
    std::copy(d_h.begin(), d_h.end(), row_of(call.result(1), item));
  }
}

void rnn_gradient(GradientBuilder& g) {
  const std::vector<ir::Value*> operands{g.result(Out::kY), g.operand(In::kWeight), g.upstream(Out::kY),
                                         g.upstream(Out::kHn)};
  ir::Op* gradient = build_op(g.builder(), "rnn_layer_gradient", operands, g.forward().attributes);
  ir::Value* h0 = g.has_operand(In::kH0) ? g.operand(In::kH0) : nullptr;
  g.set(In::kX, gradient->result(0));
  if (g.needs(In::kWeight))
    if (ir::Value* d_weight = recurrent_weight_gradient(g, g.result(Out::kY), h0, gradient->result(0)))
      g.set(In::kWeight, d_weight);
  if (h0 != nullptr) g.set(In::kH0, gradient->result(1));
}

MakeLayer make_rnn(const std::string& activation) {
  return [activation](ImportCall& call, ir::Value* x, const RecurrentLayer& layer) {
    const std::vector<ir::Value*> operands{input_parts(call, x, layer, true), layer.recurrent_weight,
                                           layer.h0};
    ir::Op* op = build_op(
        call.builder(), "rnn_layer", operands,
        {{"activation", activation}, {"reverse", layer.reverse}, {"batch_first", layer.batch_first}});
    return RecurrentState{op->result(Out::kY), op->result(Out::kHn), nullptr};
  };
}

const Attributes kReluBack{{"activation", std::string("relu")}, {"reverse", true}, {"batch_first", true}};

const OpRegistration rnn_layer =
    define_op("rnn_layer", "recurrent")
        .doc(
            "One layer of a plain recurrent net in one direction: h = activation(x_parts + weight h), with "
            "x_parts [T, B, H] what comes from the input, biases included; weight [H, H]; h0 [B, H], absent: "
            "zeros. Gives y [T, B, H] and the state after the last step. batch_first: [B, T, ...]; reverse: "
            "the last time comes first.")
        .operand("x_parts", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("h0", kAnyFloat)
        .attribute("activation", std::string("tanh"))
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("y")
        .result("h_n")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const LayerTypes types = rnn_types(c);
          require_type(c, In::kH0, "h0", types.state(types.hidden));
          return std::vector<ir::Type>{types.rows(types.hidden), types.state(types.hidden)};
        })
        .gradient(rnn_gradient)
        .reference(rnn_reference)
        .work([](const ir::Op& op) {
          const bool is_relu = op.attributes.text("activation", "tanh") == "relu";
          return layer_work(op, {{"Add"}, {is_relu ? "Relu" : "Tanh"}}, false);
        })
        .from_aten({"rnn_tanh.input"}, [](AtenImportCall& call) { import_layers(call, make_rnn("tanh")); })
        .from_onnx("RNN", {7}, [](NodeImportCall& call) { import_node_layers(call, {0}, make_rnn("tanh")); })
        .from_aten({"rnn_relu.input"}, [](AtenImportCall& call) { import_layers(call, make_rnn("relu")); })
        .samples({{{f32({3, 2, 4}), f32({4, 4})}, {}},
                  {{f32({4, 3, 5}), f32({5, 5}), f32({3, 5})}, {{"reverse", true}}},
                  {{f32({2, 3, 3}), f32({3, 3}), f32({2, 3})}, kReluBack}});

const OpRegistration rnn_layer_gradient =
    define_op("rnn_layer_gradient", "recurrent")
        .doc("Gradient of rnn_layer for x_parts and h0, from y and the gradients of its results.")
        .operand("y", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("d_y", kAnyFloat)
        .optional_operand("d_h_n", kAnyFloat)
        .attribute("activation", std::string("tanh"))
        .attribute("reverse", false)
        .attribute("batch_first", false)
        .result("d_x_parts")
        .result("d_h0")
        .traits(kMatmul | kExpensive | kMayReuseFirstOperand)
        .layouts({{LayoutWish::kPlain, LayoutWish::kPanels}, {}})
        .infer([](const InferContext& c) {
          const LayerTypes types = rnn_types(c);
          require_type(c, GradientIn::kUpstreamY, "d_y", types.rows(types.hidden));
          require_type(c, GradientIn::kUpstreamHn, "d_h_n", types.state(types.hidden));
          return std::vector<ir::Type>{types.rows(types.hidden), types.state(types.hidden)};
        })
        .gradient_refused("a recurrent layer can be differentiated once")
        .reference(rnn_gradient_reference)
        .work([](const ir::Op& op) {
          return layer_work(op, {{"Mul", "Sub"}, {"Mul", "Add"}}, true);
        })
        .samples({{{f32({3, 2, 4}), f32({4, 4}), f32({3, 2, 4})}, {}},
                  {{f32({4, 3, 5}), f32({5, 5}), std::nullopt, f32({3, 5})}, {{"reverse", true}}},
                  {{f32({2, 3, 3}), f32({3, 3}), f32({2, 3, 3}), f32({2, 3})}, kReluBack}});

const PopartOperators rnn_layer_popart = {{
    {"RNN", "7", "X:F W:F R:F B:F sequence_lens:INT32 initial_h:F", "Y:F Y_h:F", "yes",
     "activation_alpha activation_beta activations clip direction=forward hidden_size output_sequence"},
}};

}  // namespace
}  // namespace ipu::ops
