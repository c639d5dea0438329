// LSTM, GRU and RNN of ONNX: one layer, weights of all directions in one tensor, gates in another order than
// torch's. What the layer ops do not compute goes step by step (stepwise_layers.h); peepholes and clipping are
// refused.
#include <algorithm>
#include <numeric>

#include "ops/recurrent/stepwise_layers.h"

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

Cell cell_of(const std::vector<int64_t>& gates) {
  return gates.size() == 4 ? Cell::kLstm : gates.size() == 3 ? Cell::kGru : Cell::kRnn;
}

// One name for each function of the cell; none: the usual ones.
std::vector<std::string> activations_of(NodeImportCall& call, Cell cell, int64_t directions) {
  const std::vector<std::string> usual = cell == Cell::kLstm
                                             ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : cell == Cell::kGru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                              : std::vector<std::string>{"Tanh"};
  std::vector<std::string> names;
  if (call.has("activations")) {
    names = call.texts("activations");
    if (call.is_popart() && cell == Cell::kRnn && names.empty())
      call.unsupported("an empty list of activations; an RNN has one");
  }
  if (names.size() > usual.size() && directions == 2 && names.size() == 2 * usual.size()) {
    const auto half = names.begin() + std::ssize(usual);
    if (!std::equal(names.begin(), half, half)) call.unsupported("activations that differ by direction");
    names.resize(usual.size());
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  if (names.size() > usual.size()) call.unsupported("activations [" + list + "]; there are too many");
  if (call.is_popart() && cell == Cell::kGru && !names.empty() && names != usual)
    call.unsupported("activations [" + list + "]; a GRU has Sigmoid and Tanh");
  for (const std::string& name : names)
    if (!is_known_activation(name)) call.unsupported("activation '" + name + "'");
  std::vector<std::string> all = usual;
  std::copy(names.begin(), names.end(), all.begin());
  if (cell == Cell::kLstm && names.size() == 2) all[2] = all[1];
  if (cell == Cell::kLstm && call.is_popart() && all[1] != all[2])
    call.unsupported("activations [" + list + "]; the last two must be equal");
  return all;
}

bool is_usual(Cell cell, const std::vector<std::string>& activations) {
  const size_t last = activations.size() - 1;
  for (size_t i = 0; i <= last; ++i)
    if (activations[i] != (i == 0 && cell != Cell::kRnn ? "Sigmoid" : "Tanh")) return false;
  return true;
}

}  // namespace

void import_node_layers(NodeImportCall& call, const std::vector<int64_t>& gates, const MakeLayer& make) {
  const bool is_lstm = gates.size() == 4;
  if (is_lstm && call.has_operand(NodeIn::kPeepholes)) call.unsupported("peepholes");
  if (is_lstm && call.integer("input_forget", 0) != 0) call.unsupported("input_forget");
  const std::string direction = call.text("direction", "forward");
  const int64_t directions = directions_of(call, direction);
  if (call.is_popart() && direction != "forward") call.unsupported("direction '" + direction + "'");
  if (call.version() < 7) call.ignore("output_sequence");  // all results are there
  const bool batch_first = call.integer("layout", 0) != 0;
  Stepwise how{cell_of(gates), activations_of(call, cell_of(gates), directions), false, nullptr};
  how.linear_before_reset = how.cell != Cell::kGru || call.integer("linear_before_reset", 0) != 0;
  if (call.has_operand(NodeIn::kLengths))
    how.lengths = call.cast(call.operand(NodeIn::kLengths), DType::kI32);
  const bool is_stepwise =
      how.lengths != nullptr || !how.linear_before_reset || !is_usual(how.cell, how.activations);
  if (is_stepwise && (batch_first || direction != "forward"))
    call.unsupported("a layer of the direction '" + direction +
                     "' with sequence_lens, other activations or linear_before_reset = 0");
  check_shapes(call, std::ssize(gates), directions);
  const int64_t state_dim = batch_first ? 1 : 0;
  std::vector<ir::Value*> y, h, c;
  for (int64_t d = 0; d < directions; ++d) {
    RecurrentLayer layer;
    layer.reverse = d == 1 || direction == "reverse";
    layer.batch_first = batch_first;
    std::vector<int64_t> order(gates.size());
    std::iota(order.begin(), order.end(), 0);
    if (!is_stepwise) order = gates;
    layer.input_weight = in_order(call, entry(call, call.operand(NodeIn::kWeights), 0, d), order);
    layer.recurrent_weight =
        in_order(call, entry(call, call.operand(NodeIn::kRecurrentWeights), 0, d), order);
    if (call.has_operand(NodeIn::kBiases)) {
      ir::Value* both = entry(call, call.operand(NodeIn::kBiases), 0, d);
      const int64_t size = both->type().shape[0] / 2;
      layer.input_bias = in_order(call, sliced(call, both, 0, 0, size), order);
      layer.recurrent_bias = in_order(call, sliced(call, both, 0, size, size), order);
    }
    if (call.has_operand(NodeIn::kH)) layer.h0 = entry(call, call.operand(NodeIn::kH), state_dim, d);
    if (is_lstm && call.has_operand(NodeIn::kC))
      layer.c0 = entry(call, call.operand(NodeIn::kC), state_dim, d);
    const RecurrentState state = is_stepwise ? stepwise_layer(call, call.operand(NodeIn::kX), layer, how)
                                             : make(call, call.operand(NodeIn::kX), layer);
    y.push_back(state.y);
    h.push_back(state.h);
    if (is_lstm) c.push_back(state.c);
  }
  if (call.has_result(0)) call.set_result(0, joined(call, y, batch_first ? 2 : 1));
  if (call.has_result(1)) call.set_result(1, joined(call, h, state_dim));
  if (is_lstm && call.has_result(2)) call.set_result(2, joined(call, c, state_dim));
}

}  // namespace ipu::ops
