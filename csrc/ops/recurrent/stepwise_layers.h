// Recurrent layers of ONNX step by step, said with products and elementwise ops: for activations that no layer op
// has, resets that come before the product, and sequences of different lengths. The graph grows with the number
// of steps.
#pragma once

#include <string>
#include <vector>

#include "ops/recurrent/recurrent_importers.h"

namespace ipu::ops {

enum class Cell : uint8_t { kRnn, kGru, kLstm };

struct Stepwise {
  Cell cell = Cell::kRnn;
  std::vector<std::string> activations;  // RNN: 1; GRU: gates, candidate; LSTM: gates, candidate, output
  bool linear_before_reset = false;
  ir::Value* lengths = nullptr;  // i32[batch]; nullptr: all steps
};

// `layer` has weights with the gates in ONNX's order: input, output, forget, cell; update, reset, hidden. It is
// neither reversed nor batch first.
RecurrentState stepwise_layer(NodeImportCall& call, ir::Value* x, const RecurrentLayer& layer,
                              const Stepwise& how);

// Names of activations that PopART knows.
bool is_known_activation(const std::string& name);

}  // namespace ipu::ops
