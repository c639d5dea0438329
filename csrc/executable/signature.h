// How the streams of a program meet a caller's tensors: what a front end must know beside the program to run
// it. Plain data, so that an executor can be made from a file as well as from a capture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optimizers/optimizer.h"
#include "support/shape.h"

namespace ipu::executable {

// A tensor as files hold it. `dtype` is the name safetensors uses ("F32", "BF16", "I64", "BOOL"): the host
// knows types the device does not.
struct HostTensor {
  std::string dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

struct Signature {
  struct Input {
    std::string name;
    Shape shape;  // of a whole call
    std::string dtype;
    int64_t items = 0;         // elements of the stream in one call
    std::vector<int> streams;  // of the program; empty: the program does not read it
  };
  struct Output {
    Shape shape;  // of a whole call
    std::string dtype;
    int64_t items = 0;
    int stream = -1;    // -1: `constant`
    int same_as = -1;   // an earlier output with the same value
    int constant = -1;  // of `constants`
  };
  struct Mutated {  // an input that the program writes back
    int input = -1;
    Output output;
    std::vector<int> also;  // inputs that must be the same tensor
  };
  struct Moved {  // an input whose dimensions the model exchanges, drops and adds without writing it
    int input = -1;
    std::vector<int64_t> dims;  // by new dimension: the old one, -1: a new one of size 1
  };
  struct HyperStream {  // a hyper-parameter that may change between calls
    int stream = -1;
    int group = -1;  // -1: loss scaling
    std::string name;
  };
  struct ModelTensor {  // a parameter or buffer of the model
    std::string name;
    Shape shape;
    std::string dtype;  // on the host
    bool is_parameter = false, trainable = false;
  };

  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Mutated> mutated;
  std::vector<Moved> moved;
  std::vector<HyperStream> hypers;
  std::vector<ModelTensor> states;
  std::vector<HostTensor> constants;
  optimizers::Spec optimizer;
  bool training = false;
  std::string graph;  // fingerprint of the captured graph, of which this is the program
};

}  // namespace ipu::executable
