// The model's parameters and buffers in one capture: which memory each is, and what becomes of it. One enters
// the graph when it is first read; one whose value changed becomes an update of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/capture/captured.h"
#include "frontends/torch/capture/memory/constants.h"
#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/capture/memory/slot.h"

namespace ipu::frontends::torch_frontend {

struct ModelTensor {
  StateSpec spec;
  std::shared_ptr<Slot> slot;
  at::Tensor tensor;       // the caller's; keeps its storage alive, which is a key of Memory
  at::Tensor counterpart;  // what forward() sees
  std::string moved_at;    // the user's line that gave the counterpart other memory, or another view of it
  ir::Value* input = nullptr;                             // its value at entry, once read
  bool updatable = false;                                 // the host may change it between runs
  ir::Value *moved_value = nullptr, *reads_as = nullptr;  // Memory::read_parameter

  std::string described() const { return spec.described(); }
  bool is_moved() const {
    return impl_of(counterpart)->slot != slot;
  }  // looks at other memory, or in another way
  // A written state is read first, so that it is also an input.
  bool is_written() const { return slot->value != input; }
};

class States {
 public:
  explicit States(ir::Graph* graph) : graph_(graph) {}

  // `slot`: all of its memory in the graph, with the caller's tensor as `host`.
  void add(StateSpec spec, std::shared_ptr<Slot> slot, const at::Tensor& counterpart, bool updatable);
  ModelTensor* of(const IpuTensorImpl& counterpart);  // nullptr: it stands for none of them
  size_t size() const { return states_.size(); }
  const ModelTensor& operator[](size_t i) const { return states_[i]; }
  auto begin() const { return states_.begin(); }
  auto end() const { return states_.end(); }

  // The value of state `i` at entry: from now on it is an input of the graph.
  ir::Value* enter(size_t i);
  // Appends new values to the graph's outputs.
  void append_outputs();
  // Integer states that neither the program nor the host writes become constants of the program.
  void fold_integers(ir::Builder& builder, Constants& constants);
  // What became of all of them, in the order they were added.
  std::vector<StateSpec> specs();

 private:
  ir::Graph* graph_;
  std::vector<ModelTensor> states_;
};

}  // namespace ipu::frontends::torch_frontend
