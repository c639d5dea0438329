// Host inputs of a capture: how they enter, and which of them forward() writes. Tensors that lie in the same
// memory are one tensor to forward(), as in torch, or an error that names both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/capture/captured.h"
#include "frontends/torch/capture/memory/slot.h"
#include "frontends/torch/capture/memory/states.h"

namespace ipu::frontends::torch_frontend {

class Memory;

class Inputs {
 public:
  Inputs(uint64_t capture, ir::Graph* graph) : capture_(capture), graph_(graph) {}

  // An input; `example` is one micro-batch of `whole`, the caller's tensor. Where that is an earlier input
  // once more, the two are one tensor to forward().
  at::Tensor add(const std::string& name, const at::Tensor& example, const at::Tensor& whole);
  // The input whose value at entry this is, or -1.
  int with_value(const ir::Value* value) const;
  int count() const { return static_cast<int>(inputs_.size()); }
  bool holds(const std::shared_ptr<Slot>& slot) const;
  bool is_memory_of_one(const Base* base) const;
  void replace(const std::shared_ptr<Slot>& slot, const std::shared_ptr<Slot>& by);
  // Appends new values to the graph's outputs. Error(kCapture) where memory is written that an input shares.
  std::vector<MutatedInput> collect_written(Memory& memory, const States& states);
  // Inputs that look another way at their memory than at entry. Error(kCapture) where that is not the same
  // elements with other dimensions, or is no longer that memory.
  std::vector<MovedInput> collect_moved(Memory& memory) const;
  std::vector<InputSpec> specs() const;

 private:
  struct Input {
    InputSpec spec;
    std::shared_ptr<Slot> slot;
    ir::Value* value;  // at entry
    at::Tensor whole;
    at::Tensor symbolic;  // what forward() got
  };
  uint64_t capture_;
  ir::Graph* graph_;
  std::vector<Input> inputs_;
};

}  // namespace ipu::frontends::torch_frontend
