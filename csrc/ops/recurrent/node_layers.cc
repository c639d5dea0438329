// LSTM, GRU and RNN of ONNX: one layer, weights of all directions in one tensor, gates in another order than
// torch's. Sequences of different lengths, peepholes, clipping and other activations are refused.
#include <algorithm>

#include "ops/recurrent/recurrent_importers.h"

namespace ipu::ops {
namespace {

struct NodeIn {
  enum : uint8_t { kX, kWeights, kRecurrentWeights, kBiases, kLengths, kH, kC, kPeepholes };
};

// One entry along dimension `dim`, which goes.
ir::Value* entry(ImportCall& call, ir::Value* value, int64_t dim, int64_t index) {
  Shape shape = value->type().shape;
  shape.erase(shape.begin() + dim);
  return reshaped(call, sliced(call, value, dim, index, 1), shape);
}

// [gates * hidden, ...] with its gates in torch's order.
ir::Value* in_order(ImportCall& call, ir::Value* value, const std::vector<int64_t>& gates) {
  if (std::is_sorted(gates.begin(), gates.end())) return value;
  const int64_t size = value->type().shape[0] / std::ssize(gates);
  std::vector<ir::Value*> parts;
  for (const int64_t gate : gates) parts.push_back(sliced(call, value, 0, gate * size, size));
  return concatenated(call, parts, 0);
}

// States of all directions, a new dimension `dim`.
ir::Value* joined(ImportCall& call, std::vector<ir::Value*> values, int64_t dim) {
  for (ir::Value*& value : values) {
    Shape shape = value->type().shape;
    shape.insert(shape.begin() + dim, 1);
    value = reshaped(call, value, shape);
  }
  return concatenated(call, values, dim);
}

int64_t directions_of(NodeImportCall& call, const std::string& direction) {
  if (direction == "bidirectional") return 2;
  if (direction != "forward" && direction != "reverse") call.unsupported("direction '" + direction + "'");
  return 1;
}

void check_shapes(NodeImportCall& call, int64_t gates, int64_t directions) {
  const Shape &x = call.operand(NodeIn::kX)->type().shape, &w = call.operand(NodeIn::kWeights)->type().shape,
              &r = call.operand(NodeIn::kRecurrentWeights)->type().shape;
  const bool fits = x.size() == 3 && w.size() == 3 && r.size() == 3 && w[0] == directions &&
                    r[0] == directions && w[1] == gates * r[2] && r[1] == w[1] && w[2] == x[2] &&
                    call.integer("hidden_size", r.size() == 3 ? r[2] : 0) == r[2];
  const bool biases_fit = !call.has_operand(NodeIn::kBiases) || !fits ||
                          call.operand(NodeIn::kBiases)->type().shape == Shape{directions, 2 * w[1]};
  if (!fits || !biases_fit)
    throw Error(ErrorCode::kTypeMismatch, "shape mismatch: " + call.described() + " of X " + to_string(x) +
                                              ", W " + to_string(w) + " and R " + to_string(r) +
                                              " with its biases and hidden_size.");
}

}  // namespace

void import_node_layers(NodeImportCall& call, const std::vector<int64_t>& gates, const MakeLayer& make) {
  const bool is_lstm = gates.size() == 4;
  if (call.has_operand(NodeIn::kLengths)) call.unsupported("sequence_lens; all sequences have one length");
  if (is_lstm && call.has_operand(NodeIn::kPeepholes)) call.unsupported("peepholes");
  if (is_lstm && call.integer("input_forget", 0) != 0) call.unsupported("input_forget");
  const std::string direction = call.text("direction", "forward");
  const int64_t directions = directions_of(call, direction);
  const bool batch_first = call.integer("layout", 0) != 0;
  check_shapes(call, std::ssize(gates), directions);
  const int64_t state_dim = batch_first ? 1 : 0;
  std::vector<ir::Value*> y, h, c;
  for (int64_t d = 0; d < directions; ++d) {
    RecurrentLayer layer;
    layer.reverse = d == 1 || direction == "reverse";
    layer.batch_first = batch_first;
    layer.input_weight = in_order(call, entry(call, call.operand(NodeIn::kWeights), 0, d), gates);
    layer.recurrent_weight =
        in_order(call, entry(call, call.operand(NodeIn::kRecurrentWeights), 0, d), gates);
    if (call.has_operand(NodeIn::kBiases)) {
      ir::Value* both = entry(call, call.operand(NodeIn::kBiases), 0, d);
      const int64_t size = both->type().shape[0] / 2;
      layer.input_bias = in_order(call, sliced(call, both, 0, 0, size), gates);
      layer.recurrent_bias = in_order(call, sliced(call, both, 0, size, size), gates);
    }
    if (call.has_operand(NodeIn::kH)) layer.h0 = entry(call, call.operand(NodeIn::kH), state_dim, d);
    if (is_lstm && call.has_operand(NodeIn::kC))
      layer.c0 = entry(call, call.operand(NodeIn::kC), state_dim, d);
    const RecurrentState state = make(call, call.operand(NodeIn::kX), layer);
    y.push_back(state.y);
    h.push_back(state.h);
    if (is_lstm) c.push_back(state.c);
  }
  if (call.has_result(0)) call.set_result(0, joined(call, y, batch_first ? 2 : 1));
  if (call.has_result(1)) call.set_result(1, joined(call, h, state_dim));
  if (is_lstm && call.has_result(2)) call.set_result(2, joined(call, c, state_dim));
}

}  // namespace ipu::ops
