// Values of the graph that are known while it is captured: those that depend on constants and on integer states
// alone. Sizes, Python numbers and the places of a mask may depend on them.
#pragma once

#include <optional>
#include <set>

#include "frontends/torch/capture/memory/states.h"
#include "ir/module.h"
#include "ops/reference_tensor.h"

namespace ipu::frontends::torch_frontend {

struct KnownValue {
  ops::ReferenceTensor value;
  std::set<size_t> states;  // whose values at entry it depends on
};

// Nothing where it depends on an input, weights, random numbers, or a state that the program has written so far.
std::optional<KnownValue> known_value(const ir::Value* value, const States& states);

// Whether the value that the host has of a state is that of the program, as far as the capture has come.
bool is_known(const ModelTensor& state);

}  // namespace ipu::frontends::torch_frontend
