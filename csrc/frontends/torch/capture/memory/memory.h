// What tensors mean as values of the graph of one capture: which memory each lies in, states entering at first
// use, reads that replay views, writes that fold back through them, and host memory that becomes a graph value
// when one is written to it. Not here: what an operator is or where it stands in the model (annotations.h),
// and how views are computed (views.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/torch/capture/memory/constants.h"
#include "frontends/torch/capture/memory/inputs.h"
#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/capture/memory/states.h"
#include "frontends/torch/capture/memory/views.h"
#include "frontends/torch/capture/operators/tensor_meta.h"

namespace ipu::frontends::torch_frontend {

class Memory {
 public:
  // `builder` builds in the graph of capture `capture`, and lives longer.
  Memory(uint64_t capture, bool training, ir::Builder& builder);

  // A counterpart of `tensor` for the caller to swap in; `tensor` itself and everything over its storage is
  // captured as this state too.
  // `updatable`: the host may change it between runs, so that an integer one is no constant either.
  // `is_statistic`: a running statistic of a normalisation.
  at::Tensor add_state(const std::string& name, const at::Tensor& tensor, bool is_parameter, bool trainable,
                       bool updatable, bool is_statistic);
  Inputs& inputs() { return inputs_; }
  States& states() { return states_; }
  const std::vector<at::Tensor>& leaves() const { return leaves_; }

  // --- questions
  // Whether `t` is a value of the graph (an ipu tensor, or a CPU tensor over memory that has become one).
  bool is_graph_value(const at::Tensor& t) const;
  bool has_storages() const { return !storages_.empty(); }
  std::shared_ptr<Slot> slot_of(const at::Tensor& t) const;  // nullptr: a plain CPU tensor
  // How often the memory of `t` has been written so far, not counting writes through `.data` and detach().
  int64_t version_of(const at::Tensor& t) const;
  // Elements of a tensor that the host has: a constant, or an integer state as long as it is not written;
  // undefined otherwise.
  at::Tensor host_value(const at::Tensor& t) const;
  // Elements of a tensor the program wants to see now, also where they were computed of such tensors alone;
  // undefined otherwise. What depends on a state from now on may not be changed by writing it.
  at::Tensor known_value(const at::Tensor& t);

  // --- values
  ir::Value* read(const at::Tensor& t);
  void write(const at::Tensor& t, ir::Value* value);
  ir::Value* value_of(const std::shared_ptr<Slot>& slot);  // of memory, whatever the tensor over it is
  // What parameter `t` of the model holds when forward begins.
  ir::Value* value_at_entry(const at::Tensor& t);
  // `t` as a leaf of gradients, if it is one: it requires one and was made by no operator. From now on it is a value
  // of its own, which views of it show, so that gradients inside forward stop there and are found.
  void own_leaf(const at::Tensor& t);
  // Refuses that a state looks at other memory: in a body of a loop or branch, or after its value was used as a number.
  void require_movable(const IpuTensorImpl& impl);
  // `impl` is about to look at other memory (`t.data = ...`, set_), or at what it has in another way (t_()).
  void keep_history(IpuTensorImpl& impl);
  void note_view(const IpuTensorImpl& impl);
  // `t` is a slice at a run-time place, a copy: a write to it is an error at the end unless it is settled, as the
  // assignment behind `x[a:b] += y` does.
  void note_slice(const at::Tensor& t);
  void settle_slice(const at::Tensor& t);
  bool has_lost_writes() const { return !written_slices_.empty(); }
  void refuse_lost_writes() const;
  at::Tensor new_tensor(const TensorMeta& meta, ir::Value* value);
  at::Tensor new_view(const TensorMeta& meta, const at::Tensor& of, std::shared_ptr<ViewStep> step,
                      size_t result, ir::Value* value);
  // Gives `t` the sizes of `fresh` and memory for them, as out= of another shape does; false where it is a
  // parameter or buffer, a view, or an input that others look at.
  bool resize(const at::Tensor& t, at::IntArrayRef sizes, const at::Tensor& fresh);

  // --- bodies of loops and branches, and backward passes of functions
  // Memory that comes into being until close_body() is known there only, and is all that may be written there.
  void open_body(bool is_pass = false);
  void close_body();

  // --- the end
  // What parameters and buffers look at now becomes their new value. Error(kCapture) where the device cannot follow.
  void settle_states();
  void fold_integer_states() { states_.fold_integers(builder_, constants_); }
  void leave();  // host memory that became graph values is host memory again; idempotent

 private:
  const std::shared_ptr<Slot>& adopt(const at::Tensor& cpu);
  void promote(const std::shared_ptr<Slot>& slot);
  void enter_graph(const std::shared_ptr<Base>& base);
  void refuse_left_behind(const Base& base) const;
  void refuse_outer_write(const Base* base) const;
  void refuse_write_of_seen(const Base& base) const;
  void write_slot(const std::shared_ptr<Slot>& slot, ir::Value* value);
  ir::Value* straight_through(ir::Value* before, ir::Value* value);
  ir::Value* read_parameter(ModelTensor& state, ir::Value* value);
  ir::Value* gradient_target(const ModelTensor& state, ir::Value* value);
  void refuse_shared(const ModelTensor& state) const;
  void resize_shared(IpuTensorImpl& impl, at::IntArrayRef sizes, const at::Tensor& fresh);

  uint64_t capture_;
  bool training_;
  ir::Builder& builder_;
  Constants constants_;
  Views views_;
  std::vector<at::Tensor> leaves_;  // of gradients, in order of use
  Inputs inputs_;
  States states_;
  std::unordered_map<const c10::StorageImpl*, std::shared_ptr<Slot>>
      storages_;                                 // of states and written tensors
  std::vector<at::Tensor> kept_;                 // written tensors, whose storages are keys
  std::vector<std::shared_ptr<Base>> promoted_;  // host memory that became graph values
  std::vector<std::shared_ptr<Base>> written_slices_;
  std::vector<int64_t> open_bodies_;              // innermost last
  std::unordered_set<int64_t> passes_;            // bodies that are backward passes
  std::unordered_map<size_t, std::string> seen_;  // states whose value the program asked for, and its line
};

}  // namespace ipu::frontends::torch_frontend
