// One capture: forward() runs once on ipu tensors and every operator is imported into graph @forward of a
// module. One at a time in a process; only the thread that began it sees it. The boxed kernel (kernel.cc)
// decides what an operator is; this class holds the graph, the state of annotations, and what tensors mean
// (values.cc).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/torch/capture/captured.h"
#include "frontends/torch/capture/ipu_tensor.h"
#include "frontends/torch/capture/op_info.h"
#include "ir/builder.h"
#include "support/error.h"

namespace torch {
struct CapturedTraceback;
}

namespace ipu::frontends::torch_frontend {

// Shape and element type of a result as torch sees it.
struct TensorMeta {
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t storage_offset = 0;
  at::ScalarType dtype = at::kFloat;
};

// A CPU tensor, contiguous, in the device's element type. 64-bit integers that do not fit are clamped, with a
// warning.
at::Tensor to_device_type(const at::Tensor& cpu);
int64_t clamped_constant(int64_t value);  // the same of a number

// Error(kTypeMismatch) naming `what` when the device has no such type.
DType required_device_dtype(const std::string& what, at::ScalarType type);

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

  // --- called by the wrapper, in this order
  // From here on every operator of this thread comes to the capture. Error(kCapture) when one is in progress.
  void begin();
  // An input; `example` is one micro-batch of `whole`, the caller's tensor. Where that is an earlier input
  // once more, the two are one tensor to forward().
  at::Tensor add_input(const std::string& name, const at::Tensor& example, const at::Tensor& whole);
  // A counterpart of `tensor` for the caller to swap in; `tensor` itself and everything over its storage is
  // captured as this state too.
  // `updatable`: the host may change it between runs, so that an integer one is no constant either.
  at::Tensor add_state(const std::string& name, const at::Tensor& tensor, bool is_parameter, bool trainable,
                       bool updatable);
  void set_block(const std::string& id, int ipu);
  void clear_block();  // the next operator without a block is an error
  void push_module(const std::string& path);
  void pop_module();
  // Back-end attributes of the operators captured until pop_attributes(); inner values win.
  void push_attributes(const Attributes& attributes);
  void pop_attributes();
  // The share of tile memory for the operator that made `t`, looked for up to two producers back; whether
  // there is one that takes the hint.
  bool set_available_memory(const at::Tensor& t, double proportion);
  // Convolutions captured between the two become one fused operation; returns how many. Error(kCapture):
  // nested, none captured, or one that needs the result of another.
  void begin_multi_conv();
  int64_t end_multi_conv(const Attributes& settings);
  // Ends the capture. Error(kUnsupportedOps) listing all of them.
  std::unique_ptr<Captured> finish(const std::vector<at::Tensor>& outputs);
  void abort();  // ends the capture; harmless when there is none

  // --- gradients inside forward (gradients.cc)
  // Captures the gradients of `inputs` from those of `outputs` (undefined: ones are the caller's business);
  // an undefined tensor where nothing depends on an input. They carry gradients themselves when
  // `create_graph`.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                    const std::vector<at::Tensor>& upstream,
                                    const std::vector<at::Tensor>& inputs, bool create_graph);
  const std::vector<at::Tensor>& leaves() const {
    return leaves_;
  }  // that require gradients, in order of use
  // Stand-ins for the gradients of `results`; what is captured until end_custom_gradient is a backward pass.
  std::vector<at::Tensor> begin_custom_gradient(const std::vector<at::Tensor>& results);
  // `results` again, with the captured pass as their gradient: `of[i]` (undefined: none) is that of
  // arguments[i].
  std::vector<at::Tensor> end_custom_gradient(const std::vector<at::Tensor>& results,
                                              const std::vector<at::Tensor>& arguments,
                                              const std::vector<at::Tensor>& of);

  // --- called by the kernel
  uint64_t id() const { return id_; }
  // Whether `t` is a value of the graph (an ipu tensor, or a CPU tensor over memory that has become one).
  bool is_graph_value(const at::Tensor& t);
  bool has_storages() const { return !storages_.empty(); }
  std::shared_ptr<Slot> slot_of(const at::Tensor& t);  // nullptr: a plain CPU tensor
  ir::Value* read(const at::Tensor& t);
  void write(const at::Tensor& t, ir::Value* value);
  // Gives `t` the memory of `fresh`, as out= of another shape does; false where others share its memory, or
  // where it is a parameter or buffer.
  bool resize(const at::Tensor& t, at::IntArrayRef sizes, const at::Tensor& fresh);
  ir::Value* constant(const at::Tensor& cpu);
  // The seed of this forward pass (u32[2]): an input of the graph that comes into being when first asked for.
  ir::Value* seed();
  int64_t next_stream() { return next_stream_++; }  // of random ops, in order of capture
  // Imports a call; arguments and results as the functional operator has them. Returns one value per
  // flattened result.
  std::vector<ir::Value*> import(const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
                                 const std::vector<TensorMeta>& results);
  at::Tensor new_tensor(const TensorMeta& meta, ir::Value* value);
  at::Tensor new_view(const TensorMeta& meta, const at::Tensor& of, std::shared_ptr<ViewStep> step,
                      size_t result, ir::Value* value);
  // Sets block, grad mode, location and origin for the ops built next. Error(kNoActiveBlock).
  void start_op(const OpInfo& info);
  ir::Builder& builder() { return builder_; }
  // Remembers an operator nothing can import, and makes opaque values of the right types so that capture goes
  // on.
  std::vector<ir::Value*> unsupported(const OpInfo& info, const std::string& detail,
                                      at::ArrayRef<c10::IValue> arguments,
                                      const std::vector<TensorMeta>& results);
  // Raises Error(kUnsupportedOps) at once: the result's shape is unknown, so the list may be incomplete.
  [[noreturn]] void unsupported_without_shape(const OpInfo& info, const std::string& detail);
  // Value of a tensor the program wants to see now, if it is known; undefined otherwise.
  at::Tensor host_value(const at::Tensor& t);

 private:
  struct ModelTensor {
    StateSpec spec;
    std::shared_ptr<Slot> slot;
    at::Tensor tensor;           // the caller's, keeps its storage alive and in storages_
    ir::Value* input = nullptr;  // its value at entry, once read
    bool updatable = false;
  };
  struct Unsupported {
    std::string name, detail;
    int64_t count = 0;
    std::vector<ir::Location> lines;
  };

  void leave();  // restores the thread; idempotent
  void resolve_locations();
  ir::Location new_location();
  ir::Value* read_slot(const std::shared_ptr<Slot>& slot);
  ir::Value* read_leaf(const at::Tensor& t, IpuTensorImpl& impl, ir::Value* value);
  ir::Value* value_for_gradient(const at::Tensor& gradient, const at::Tensor& of);
  void write_slot(const std::shared_ptr<Slot>& slot, ir::Value* value);
  void promote(const std::shared_ptr<Slot>& slot);
  void enter_graph(const std::shared_ptr<Base>& base);
  std::vector<ir::Value*> import_view(const ViewStep& step, ir::Value* parent);
  ir::Value* fold_back(ir::Value* target, ir::Value* view, ir::Value* value,
                       const std::shared_ptr<Slot>& slot);
  [[noreturn]] void raise_unsupported(bool complete);
  std::string current_module() const;
  void fold_integer_states();
  void collect_written_inputs(Captured& result);

  // forward() of a custom autograd.Function runs with gradients off; what counts is the mode around it.
  bool gradients_off() const;
  void watch_functions();

  bool training_;
  uint64_t id_;
  bool active_ = false;
  bool saved_grad_mode_ = true;
  c10::impl::LocalDispatchKeySet saved_keys_ = c10::impl::tls_local_dispatch_key_set();
  std::unique_ptr<ir::Module> module_;
  ir::Graph* graph_;
  ir::Builder builder_;
  std::vector<InputSpec> inputs_;
  std::vector<std::shared_ptr<Slot>> input_slots_;
  std::vector<ir::Value*> input_values_;
  std::vector<at::Tensor> input_tensors_;  // the caller's
  std::vector<ModelTensor> states_;
  std::unordered_map<const c10::StorageImpl*, std::shared_ptr<Slot>> storages_;
  std::vector<at::Tensor> kept_;  // tensors whose storage or identity is a key of a table here
  std::vector<std::shared_ptr<Base>>
      promoted_;  // host memory that became graph values: host again afterwards
  struct CachedConstant {
    at::Tensor tensor;
    uint32_t version;
    ir::Value* value;
  };
  std::unordered_map<const c10::TensorImpl*, CachedConstant> constants_;
  enum class BlockState : uint8_t { kBeforeFirst, kActive, kEnded } block_state_ = BlockState::kBeforeFirst;
  std::string block_;
  std::vector<BlockSpec> blocks_;
  std::vector<std::string> modules_;
  std::vector<Attributes> outlines_;        // of nested poptorch.Attribute contexts, merged
  std::optional<size_t> multi_conv_start_;  // ops of the graph when the open MultiConv began
  int64_t multi_convs_ = 0;
  std::vector<std::pair<std::shared_ptr<ir::LocationData>, std::shared_ptr<torch::CapturedTraceback>>>
      pending_lines_;
  ir::Value* seed_ = nullptr;
  int64_t next_stream_ = 0;
  std::vector<Unsupported> unsupported_;
  std::vector<at::Tensor> leaves_;
  std::vector<ir::Op*> custom_gradients_;  // stand-ins of the ones being captured, innermost last
  std::vector<bool> function_modes_;       // grad mode at entry of each running autograd.Function
  uint64_t function_watch_ = 0;            // callback handle, 0: none
};

// The user's line that is executing now, "model.py:41"; "" when there is none (locations.cc).
std::string current_user_line();
// "\n  from:     model.py:41 [layer3]" for messages; "" when unknown.
std::string from_line(const std::string& user_line, const std::string& module_path);
// Files whose path contains one of these are not the user's either (Options.sourceLocationExcludes).
void set_location_excludes(std::vector<std::string> fragments);
// Frames of these directories are not the user's.
void set_library_directories(std::vector<std::string> directories);

}  // namespace ipu::frontends::torch_frontend
