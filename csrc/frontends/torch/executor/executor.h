// A compiled model and a caller's tensors: checks arguments, allocates results, binds both to the streams of
// the program, and moves states between host tensors and the device. Not here: the device (runtime), capture,
// and Python (bindings).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executable/cache/cache.h"
#include "executable/compile.h"
#include "executable/signature.h"
#include "frontends/common/step_builder.h"
#include "frontends/torch/capture/captured.h"
#include "frontends/torch/executor/anchors.h"
#include "frontends/torch/executor/back_end_form.h"
#include "frontends/torch/executor/output_memory.h"
#include "runtime/session.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {

// What the options of a wrapper say about a program.
struct CompileSettings {
  StepOptions step;  // without loss, replicas and anchors: the captured graph and `compile` say those
  executable::CompileOptions compile;
  executable::CacheOptions cache;
  bool broadcast_buffers = true;  // buffers stay equal on all replicas: none may be written
  struct Grouping {
    ReplicaGrouping groups;
    bool all_replicas = false;  // read back one value per replica instead of one per group
  };
  std::map<std::string, Grouping> groupings;  // parameters that differ between groups of replicas
  ir::OutputMode output_mode = ir::OutputMode::kAll;
  int64_t output_period = 1;
  int offline_ipu_version = 0;  // compile for another machine than the attached one
  std::vector<AnchorRequest> anchors;
  std::map<int, double> available_memory;  // by IPU, of products that say nothing of their own
  std::string product_partials = "float", convolution_partials = "float";
};

// What may still be said after compiling, or about a program from a file.
struct RunSettings {
  runtime::RunSettings session;
  int synthetic_data = 0;  // 0 off, 1 zeros, 2 normal
};

// Any thread may call anything, as with the session: what is not fixed after construction is read and changed
// with the device held.
class Executor {
 public:
  // Takes the module out of `captured`. Throws Error with what the compiler finds.
  Executor(Captured& captured, const CompileSettings& settings);
  // Runs a program that was compiled elsewhere; `signature` fits it (executable::load checks).
  Executor(executable::Executable executable, executable::Signature signature);

  // The device, runs and what they leave. A call on it waits until a run of run() is over.
  runtime::Session& session() { return *session_; }
  const runtime::Session& session() const { return *session_; }

  // Whether `t` is a legal input i as it stands: CPU, dtype, shape of a whole call, contiguous, no gradient
  // wanted.
  bool accepts(size_t i, const at::TensorBase& t) const;
  size_t input_count() const { return inputs_.size(); }
  // Runs one call. Inputs as captured, in whole-call shapes; Error(kTypeMismatch) otherwise. Nothing while
  // there is no device that accepts calls.
  std::optional<std::vector<at::Tensor>> run(at::ArrayRef<at::Tensor> inputs);

  // Host tensors to device variables of the same names and back, in place, converting element types. Names
  // that the program does not use are skipped. A variable whose value differs between groups of replicas has
  // one more dimension in front: an entry per group, or per replica where the grouping says so.
  void write_states(const std::map<std::string, at::Tensor>& states);
  void read_states(const std::map<std::string, at::Tensor>& states);
  std::map<std::string, at::Tensor> read_optimizer_state();
  void write_optimizer_state(const std::map<std::string, at::Tensor>& state);

  // Before attaching.
  void configure(const RunSettings& settings);
  std::vector<std::string> tensor_names() const { return tensor_names_; }
  // The program as the back end would list it, as JSON; without operations when nothing runs on a device.
  std::string back_end_ir() const { return back_end_ir_.empty() ? form().json() : back_end_ir_; }
  // Where its operations come from, as CBOR; without operations for a program from a file.
  std::vector<uint8_t> debug_info() const { return form().debug_info(); }
  // Sets the listing of a program that was loaded from a file, as save() wrote it.
  void set_description(std::string back_end_ir, std::vector<std::string> names) {
    back_end_ir_ = std::move(back_end_ir);
    tensor_names_ = std::move(names);
  }
  void add_tensor_names(const std::vector<std::string>& names) {
    tensor_names_.insert(tensor_names_.end(), names.begin(), names.end());
  }
  // Value of the last call; undefined when there is none.
  at::Tensor anchored(const std::string& short_name);
  // Begin and end, in seconds, of each element of each tensor moved in the last run.
  std::vector<std::vector<std::pair<double, double>>> transfer_times(bool inputs);
  const executable::Signature& signature() const { return signature_; }

 private:
  struct Input {
    std::string name;
    std::vector<int64_t> shape;  // of a whole call
    at::ScalarType dtype, stream_dtype;
    int64_t items = 0;
    std::vector<int> streams;
  };
  struct Output {
    std::vector<int64_t> shape;  // of a whole call
    at::ScalarType dtype = at::kFloat;
    int64_t items = 0;
    int stream = -1;   // -1: `constant`
    int same_as = -1;  // an earlier output with the same value
    at::Tensor constant;
    OutputMemory memory;
  };
  struct Mutated {
    int input;
    Output output;
    at::Tensor replicas;    // the first replica of each group of inputs; undefined: all
    std::vector<int> also;  // inputs that must be the same tensor
  };
  executable::Executable build(Captured& captured, const CompileSettings& settings);
  void log_description(const ForwardGraph& forward);
  const BackEndForm& form() const;
  // Fills in what run() reads.
  void bind_signature(executable::Executable executable);
  void bind_synthetic(runtime::Session::Call& call);
  [[noreturn]] void raise_mismatch(size_t i, const at::TensorBase& t) const;
  void check_written(at::ArrayRef<at::Tensor> inputs) const;
  void warn_of_infinite(const std::string& name, int64_t count);
  void warn_of_inputs(at::ArrayRef<at::Tensor> inputs);

  executable::Signature signature_;
  std::unique_ptr<runtime::Session> session_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Mutated> mutated_;
  std::vector<std::string> tensor_names_;
  std::unique_ptr<const BackEndSource> back_end_;  // of a program that was compiled here
  std::string back_end_ir_;                        // of one from a file
  bool has_wide_floats_ = false;                   // f64 streams
  std::atomic<int> synthetic_data_{0};             // of RunSettings
  std::vector<at::Tensor> synthetic_;              // per input; with the device held, as the next
  std::set<std::string> warned_of_infinite_;
};

}  // namespace ipu::frontends::torch_frontend
