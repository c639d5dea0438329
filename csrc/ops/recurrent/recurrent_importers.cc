// See recurrent_importers.h. Initial states that are zeros, as torch makes them where the caller gives none,
// are left out: then the first step has no product.
#include "ops/recurrent/recurrent_importers.h"

#include <algorithm>

#include "ir/structure.h"
#include "ops/random/random_support.h"

namespace ipu::ops {

bool is_zeros(const ir::Value* value) {
  const ir::Op* op = value->producer();
  if (op == nullptr) return false;
  if (op->is("expand") || op->is("reshape") || op->is("slice")) return is_zeros(op->operand(0));
  if (!op->is(ir::kind::kConstant)) return false;
  const std::vector<std::byte>& bytes = op->attributes.constant("value")->bytes;
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

namespace {

// Entry `index` of the states of all layers and directions.
ir::Value* initial_state(AtenImportCall& call, ir::Value* states, int64_t index) {
  if (is_zeros(states)) return nullptr;
  const Shape& shape = states->type().shape;
  return reshaped(call, sliced(call, states, 0, index, 1), {shape[1], shape[2]});
}

ir::Value* all_states(AtenImportCall& call, std::vector<ir::Value*> states) {
  for (ir::Value*& state : states) {
    const Shape& shape = state->type().shape;
    state = reshaped(call, state, {1, shape[0], shape[1]});
  }
  return concatenated(call, states, 0);
}

}  // namespace

ir::Value* input_parts(ImportCall& call, ir::Value* x, const RecurrentLayer& layer, bool both_biases) {
  ir::Value* bias = layer.input_bias;
  if (bias != nullptr && both_biases) bias = call.op("add", {bias, layer.recurrent_bias});
  return bias == nullptr ? call.op("linear", {x, layer.input_weight})
                         : call.op("linear", {x, layer.input_weight, bias});
}

void import_layers(AtenImportCall& call, const MakeLayer& make) {
  ir::Value* x = call.tensor("input");
  const std::vector<ir::Value*> parameters = call.tensors("params");
  // torch's LSTM takes both states as one list.
  const bool is_lstm = call.result_count() == 3;
  std::vector<ir::Value*> initial = is_lstm ? call.tensors("hx") : std::vector{call.tensor("hx")};
  const bool has_biases = call.boolean("has_biases"), batch_first = call.boolean("batch_first");
  const bool projects = is_lstm && initial[0]->type().shape[2] != initial[1]->type().shape[2];
  const int64_t layers = call.integer("num_layers"), directions = call.boolean("bidirectional") ? 2 : 1;
  const double p = call.real("dropout");
  const bool drops = p != 0.0 && call.boolean("train");
  const size_t each = 2 + (has_biases ? 2 : 0) + (projects ? 1 : 0);
  if (parameters.size() != each * static_cast<size_t>(layers * directions))
    call.unsupported("another number of parameters than its layers and directions have");
  std::vector<ir::Value*> h_n, c_n;
  auto parameter = parameters.begin();
  for (int64_t n = 0; n < layers; ++n) {
    if (n > 0 && drops) x = drawn(call, "dropout", {{"p", p}}, x);
    std::vector<ir::Value*> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      RecurrentLayer layer;
      layer.input_weight = *parameter++;
      layer.recurrent_weight = *parameter++;
      if (has_biases) layer.input_bias = *parameter++;
      if (has_biases) layer.recurrent_bias = *parameter++;
      if (projects) layer.projection = *parameter++;
      layer.h0 = initial_state(call, initial[0], n * directions + direction);
      if (is_lstm) layer.c0 = initial_state(call, initial[1], n * directions + direction);
      layer.reverse = direction == 1;
      layer.batch_first = batch_first;
      const RecurrentState state = make(call, x, layer);
      outputs.push_back(state.y);
      h_n.push_back(state.h);
      if (is_lstm) c_n.push_back(state.c);
    }
    x = concatenated(call, outputs, 2);
  }
  call.set_result(0, x);
  call.set_result(1, all_states(call, h_n));
  if (is_lstm) call.set_result(2, all_states(call, c_n));
}

}  // namespace ipu::ops
