// The result of a capture: a module with graph @forward, and how its inputs and outputs meet the caller's
// tensors. Free of torch except for constants that are returned as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

struct InputSpec {
  std::string name;
  std::vector<int64_t> shape;  // of one micro-batch
  at::ScalarType dtype;
};

struct StateSpec {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;  // on the host
  bool is_parameter = false, trainable = false;
  bool is_statistic = false;  // running statistic of a normalisation
  bool used = false;          // has an input in the graph
  bool written = false;
  int input = -1, output = -1;  // of the graph

  std::string described() const { return (is_parameter ? "parameter '" : "buffer '") + name + "'"; }
};

struct OutputSpec {
  std::vector<int64_t> shape;  // of one micro-batch
  at::ScalarType dtype;        // as the caller gets it
  int index = -1;              // graph output; -1: `constant`
  int passthrough = -1;        // the host input it is, unchanged; -1: none
  at::Tensor constant;
};

struct MutatedInput {
  int input = -1, output = -1;  // host input, graph output with its new value
  Shape shape;                  // of one micro-batch of the new value: out= may resize
  std::vector<int> also;        // further inputs that were the same tensor: the write is seen through them
};

// forward() changed the shape of an input without writing it (squeeze_, t_): dimension i is now what dimension
// dims[i] was, -1 for a new one of size 1.
struct MovedInput {
  int input = -1;
  std::vector<int64_t> dims;
};

// A block as it was entered. One id on several IPUs makes an entry for each.
struct BlockSpec {
  std::string key;  // what ops carry: the id, for further entries "id@ipu"
  std::string id;
  int ipu = -1;  // -1: not said
};

struct Captured {
  std::unique_ptr<ir::Module> module;  // moves out when it is compiled
  ir::Graph* graph = nullptr;
  bool training = false;
  std::vector<InputSpec> inputs;  // graph inputs 0..n-1
  std::vector<StateSpec> states;  // used ones follow, in order of first use
  std::vector<OutputSpec> outputs;
  std::vector<MutatedInput> mutated_inputs;
  std::vector<MovedInput> moved_inputs;
  std::vector<BlockSpec> blocks;  // in order of first appearance
  int seed_input = -1;            // graph input (the last one) that random ops draw from; -1: there are none
  int host_outputs = 0;           // graph outputs 0..n-1 go to the host; state values follow
};

}  // namespace ipu::frontends::torch_frontend
