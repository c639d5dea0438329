// What operators of recurrent layers have in common: torch's (layers, directions, parameters in their order,
// dropout in between) and ONNX's (one layer). Each kind of layer says how one of them is made.
#pragma once

#include <functional>

#include "ops/definition/node_import_call.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {

// One layer in one direction, as torch calls its parameters; nullptr: absent.
struct RecurrentLayer {
  ir::Value *input_weight = nullptr, *recurrent_weight = nullptr;
  ir::Value *input_bias = nullptr, *recurrent_bias = nullptr;
  ir::Value* projection = nullptr;
  ir::Value *h0 = nullptr, *c0 = nullptr;  // [batch, ...]; nullptr: zeros
  bool reverse = false, batch_first = false;
};
struct RecurrentState {
  ir::Value *y = nullptr, *h = nullptr, *c = nullptr;  // c: of an LSTM
};
using MakeLayer = std::function<RecurrentState(ImportCall&, ir::Value* x, const RecurrentLayer&)>;

// lstm.input, gru.input, rnn_tanh.input, rnn_relu.input.
void import_layers(AtenImportCall& call, const MakeLayer& make);

// LSTM, GRU and RNN of ONNX with their default activations; torch's gate k is gate gates[k] of ONNX.
void import_node_layers(NodeImportCall& call, const std::vector<int64_t>& gates, const MakeLayer& make);

// The product of all inputs with the input weight, biases included: both, or that of the input alone.
ir::Value* input_parts(ImportCall& call, ir::Value* x, const RecurrentLayer& layer, bool both_biases);

// Whether all elements are known to be 0: a state that is left out spares the first product.
bool is_zeros(const ir::Value* value);

}  // namespace ipu::ops
