// Importer of ai.graphcore's LSTM: the weights of a gate are one matrix [inputs + states, states], the gates stand in
// the order forget, input, cell, output.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

constexpr int64_t kGates = 4;

struct In {
  enum : uint8_t { kX, kWeights, kBiases, kInitial, kLengths };
};

// Gates, dimension 0, in the order of lstm_layer: input, forget, cell, output.
ir::Value* in_order(NodeImportCall& call, ir::Value* x) {
  std::vector<ir::Value*> gates;
  for (const int64_t gate : {1, 0, 2, 3}) gates.push_back(sliced(call, x, 0, gate, 1));
  return concatenated(call, gates, 0);
}

// Weights [4, rows, H] from row `start` on as [4H, rows].
ir::Value* matrix(NodeImportCall& call, int64_t start, int64_t rows) {
  ir::Value* part = transposed(call, sliced(call, call.operand(In::kWeights), 1, start, rows), {0, 2, 1});
  return reshaped(call, in_order(call, part), {kGates * part->type().shape[1], rows});
}

void check_shapes(NodeImportCall& call, bool has_biases, bool has_initial, bool has_lengths) {
  const Shape &x = call.operand(In::kX)->type().shape, &w = call.operand(In::kWeights)->type().shape;
  if (x.size() != 3 || w.size() != 3 || w[0] != kGates || w[1] != x[2] + w[2])
    node_shape_error(call, fmt::format("of X {} and weights {}; they are [T, B, I] and [4, I + H, H]",
                                       to_string(x), to_string(w)));
  const auto require = [&](bool is_there, int i, const Shape& wanted) {
    if (is_there && call.operand(i)->type().shape != wanted)
      node_shape_error(call, fmt::format("has {} as operand {}, where it takes {}",
                                         to_string(call.operand(i)->type().shape), i, to_string(wanted)));
  };
  require(has_biases, In::kBiases, {kGates, w[2]});
  require(has_initial, In::kInitial, {2, x[1], w[2]});
  require(has_lengths, In::kLengths, {x[1]});
}

// x [T, B, H] of each sample at its last time; `before` [B, H] where it has none.
ir::Value* last_of(NodeImportCall& call, ir::Value* x, ir::Value* lengths, ir::Value* before) {
  const Shape shape = x->type().shape, state{shape[1], shape[2]}, column{shape[1], 1};
  ir::Value* zero = number_like(call, lengths, 0.0);
  ir::Value* last = call.op("sub", {lengths, number_like(call, lengths, 1.0)});
  ir::Value* index = reshaped(call, call.op("maximum", {last, zero}), {1, shape[1], 1});
  ir::Value* picked =
      call.op("gather", {x, expanded(call, index, {1, shape[1], shape[2]})}, {{"dim", int64_t{0}}});
  ir::Value* ran = expanded(call, reshaped(call, call.op("greater", {lengths, zero}), column), state);
  return call.op("where", {ran, reshaped(call, picked, state), before});
}

void import_lstm(NodeImportCall& call) {
  const bool has_biases = call.has_operand(In::kBiases), has_initial = call.has_operand(In::kInitial),
             has_lengths = call.has_operand(In::kLengths);
  require_float(call, In::kX);
  check_shapes(call, has_biases, has_initial, has_lengths);
  ir::Value* x = call.operand(In::kX);
  const Shape shape = x->type().shape;
  const int64_t hidden = call.operand(In::kWeights)->type().shape[2];
  const Shape state{shape[1], hidden};
  std::vector<ir::Value*> parts{x, matrix(call, 0, shape[2])};
  if (has_biases)
    parts.push_back(reshaped(call, in_order(call, call.operand(In::kBiases)), {kGates * hidden}));
  ir::Value* x_parts = build_op(call.builder(), "linear", parts)->result(0);
  const auto initial = [&](int64_t i) {
    return has_initial ? reshaped(call, sliced(call, call.operand(In::kInitial), 0, i, 1), state) : nullptr;
  };
  std::vector<ir::Value*> operands{x_parts, matrix(call, shape[2], hidden)};
  if (has_initial) operands.insert(operands.end(), {initial(0), initial(1)});
  const ir::Op* layer = build_op(call.builder(), "lstm_layer", operands);
  ir::Value *y = layer->result(1), *last = layer->result(2), *cell = layer->result(3);
  if (has_lengths) {
    require_integer(call, In::kLengths);
    ir::Value* lengths = call.cast(call.operand(In::kLengths), DType::kI32);
    ir::Value* zeros = call.builder().splat({x->type().dtype, state}, 0.0);
    cell = last_of(call, layer->result(4), lengths, has_initial ? initial(1) : zeros);
    last = last_of(call, y, lengths, has_initial ? initial(0) : zeros);
    ir::Value* time = places_along(call, shape[0], 0, 3);
    ir::Value* runs = call.op("less", {time, reshaped(call, lengths, {1, shape[1], 1})});
    y = call.op("where", {runs, y, number_like(call, y, 0.0)});
  }
  call.set_result(0, flag_of(call, "outputFullSequence", true) ? y : last);
  call.set_result(1, cell);
}

struct RecurrentGraphcoreImporters {
  RecurrentGraphcoreImporters() {
    register_graphcore_importer(
        {"LSTM", "lstm", "x:F weights:F bias?:F initialState?:F seqLengths?:INT32", "y:F cell:F", "yes",
         "outputFullSequence:flag=1",
         "[x, weights, bias, state, lengths]: outputs [T, B, H] (or the last) and the cell state [B, H]."},
        import_lstm);
  }
};
const RecurrentGraphcoreImporters recurrent_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
