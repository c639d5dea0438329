// The way of one capture: forward() runs once on ipu tensors and every operator is imported into graph
// @forward of a module. One at a time in a process; only the thread that began it sees it. What tensors mean
// is its memory (memory/), what the program says about operators its annotations (annotations/); the boxed
// kernel (kernel/) decides what becomes of a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/torch/capture/annotations/annotations.h"
#include "frontends/torch/capture/annotations/function_watch.h"
#include "frontends/torch/capture/bodies/bodies.h"
#include "frontends/torch/capture/captured.h"
#include "frontends/torch/capture/gradients/inner_gradients.h"
#include "frontends/torch/capture/memory/memory.h"
#include "frontends/torch/capture/operators/op_info.h"
#include "frontends/torch/capture/unsupported.h"
#include "ir/builder.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {

class Capture {
 public:
  explicit Capture(bool training);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The capture that the calling thread is in, or nullptr.
  static Capture* current();
  // The id of the capture in progress in any thread; 0: none.
  static uint64_t current_id();
  // Whether a tensor of capture `id`, which is not the current one, is one of a model whose forward another
  // thread has just captured, and whose parameters it is about to put back.
  static bool is_settling(uint64_t id);
  static void settle();  // they are back
  // Operators captured in this process so far: whoever waits for a capture sees that it goes on.
  static const std::atomic<uint64_t>& steps();

  // --- called by the wrapper, in this order; states are added to the memory after begin()
  // From here on every operator of this thread comes to the capture. Error(kCapture) when one is in progress.
  void begin();
  at::Tensor add_input(const std::string& name, const at::Tensor& example, const at::Tensor& whole);
  // The calls of functions with a backward pass of their own whose passes must be captured before the end.
  std::vector<int64_t> passes_for_training();
  // Ends the capture. Error(kUnsupportedOps) listing all of them. `parameters` get `gradients` on top of those of
  // the loss.
  std::unique_ptr<Captured> finish(const std::vector<at::Tensor>& outputs,
                                   const std::vector<at::Tensor>& parameters = {},
                                   const std::vector<at::Tensor>& gradients = {});
  void abort();  // ends the capture; harmless when there is none

  // --- what it holds
  Memory& memory() { return memory_; }
  Annotations& annotations() { return annotations_; }
  InnerGradients& gradients() { return gradients_; }
  Bodies& bodies() { return bodies_; }
  const FunctionWatch& functions() const { return functions_; }
  ir::Graph* graph() { return graph_; }
  ir::Builder& builder() { return builder_; }

  // --- called by the kernel, for each call
  // Sets block, grad mode, location and origin for the ops built next. Error(kNoActiveBlock).
  void start_op(const OpInfo& info);
  // Imports a call; arguments and results as the functional operator has them. Returns one value per
  // flattened result.
  std::vector<ir::Value*> import(const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
                                 const std::vector<TensorMeta>& results);
  // Remembers an operator nothing can import, and makes opaque values of the right types so that capture goes
  // on.
  std::vector<ir::Value*> unsupported(const OpInfo& info, const std::string& detail,
                                      at::ArrayRef<c10::IValue> arguments,
                                      const std::vector<TensorMeta>& results);
  // Raises Error(kUnsupportedOps) at once: the result's shape is unknown, so the list may be incomplete.
  [[noreturn]] void unsupported_without_shape(const OpInfo& info, const std::string& detail,
                                              std::string reason = "");
  // Raises it when an operator was met that nothing can import: its gradient cannot be said.
  void require_supported();
  // The seed of this forward pass (u32[2]): an input of the graph that comes into being when first asked for.
  ir::Value* seed();
  bool is_seed(const ir::Value* value) const { return value != nullptr && value == seed_; }
  int64_t next_stream() { return next_stream_++; }  // of random ops, in order of capture
  int64_t random_operations() const { return next_stream_; }
  void return_to_random_operation(int64_t number) { next_stream_ = number; }

  // While it lives the thread is as outside of the capture, which goes on afterwards.
  class Outside {
   public:
    explicit Outside(Capture& capture);
    ~Outside();
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    c10::impl::LocalDispatchKeySet keys_;
    uint64_t id_;
  };

 private:
  void leave();  // restores the thread; idempotent
  OutputSpec output_of(const at::Tensor& t);
  int take_seed_input();
  [[noreturn]] void raise_unsupported(std::string_view stopped,  // where capture ends before forward does
                                      std::string reason = "");

  bool training_;
  uint64_t id_;
  bool active_ = false;
  bool saved_grad_mode_ = true;
  c10::impl::LocalDispatchKeySet saved_keys_ = c10::impl::tls_local_dispatch_key_set();
  std::unique_ptr<ir::Module> module_;
  ir::Graph* graph_;
  ir::Builder builder_;
  Memory memory_;
  Annotations annotations_;
  FunctionWatch functions_;
  InnerGradients gradients_;
  Bodies bodies_;
  UnsupportedOps unsupported_;
  std::unordered_map<ir::Value*, int> output_index_;  // of values that are returned
  ir::Value* seed_ = nullptr;
  int64_t next_stream_ = 0;
};

}  // namespace ipu::frontends::torch_frontend
