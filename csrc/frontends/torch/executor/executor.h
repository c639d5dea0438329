// A compiled model on a device: checks arguments, allocates results, binds both to the streams of the
// program, runs it, and moves states between host tensors and the device. Not here: capture, and Python
// (bindings).
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

#include "emulator/engine.h"
#include "executable/compile.h"
#include "executable/signature.h"
#include "frontends/common/step_builder.h"
#include "frontends/torch/capture/captured.h"
#include "frontends/torch/executor/anchors.h"
#include "support/error.h"
#include "support/owned_lock.h"
#include "support/philox.h"
#include "target/system.h"

namespace ipu::frontends::torch_frontend {

// What the options of a wrapper say about a program.
struct CompileSettings {
  bool training = false;
  int64_t device_iterations = 1, accumulation = 1;
  int replicas = 1;
  int processes = 1;                   // of the job; each has that many replicas
  ReplicaGrouping input_groups{1, 1};  // replicas of a group are fed the same inputs
  bool broadcast_buffers = true;       // buffers stay equal on all replicas: none may be written
  struct Grouping {
    ReplicaGrouping groups;
    bool all_replicas = false;  // read back one value per replica instead of one per group
  };
  std::map<std::string, Grouping> groupings;  // parameters that differ between groups of replicas
  ir::OutputMode output_mode = ir::OutputMode::kAll;
  int64_t output_period = 1;
  Schedule schedule = Schedule::kPipelined;
  std::map<std::string, StepOptions::Placement> places;
  bool mean_reduction = true, running_mean = false;
  bool auto_round_num_ipus = false;
  int64_t recomputation = 0;   // autoRecomputation: 0 none, 1 standard, 2 norm only, 3 pipeline, 4 all
  bool any_ipu_count = false;  // IPU models and offline targets
  optimizers::Spec optimizer;
  std::string cache_directory;                  // of compiled programs; empty: none
  std::string version;                          // of the package
  int offline_ipu_version = 0;                  // compile for another machine than the attached one
  std::function<bool()> interrupted = nullptr;  // asked while waiting for another process that compiles
  std::vector<AnchorRequest> anchors;
};

// What may still be said after compiling, or about a program from a file.
struct RunSettings {
  bool ipu_model = false, small_model = false;
  int ipu_id = -1;  // a fixed device
  bool wait_for_ipu = false;
  int synthetic_data = 0;  // 0 off, 1 zeros, 2 normal
  bool check_floating_point = false;
};

// Any thread may call anything. What looks at the device or changes what a run reads takes the lock of the
// device, which a run holds from beginning to end: such a call waits until the run is over. The rest is fixed
// after construction, or one atomic word.
class Executor {
 public:
  // Takes the module out of `captured`. Throws Error with what the compiler finds.
  Executor(Captured& captured, const CompileSettings& settings);
  // Of a program that was compiled elsewhere; `signature` fits it (executable::load checks).
  Executor(executable::Executable executable, executable::Signature signature);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Acquires IPUs and loads the program. Error(kNoDevice) when none is free; Error(kExecution) when attached
  // already.
  void attach();
  void detach();  // releases them; state on the device is lost. Error(kExecution) when not attached
  // Between attaching and this there is no run: states are still to be written. false: no more runs, the
  // current one has ended. true: does not wait, and throws nothing. Returns what held before.
  bool accept_calls(bool accept);
  bool accepts_calls();
  bool is_attached() const { return attached_.load(std::memory_order_acquire) || !program_; }

  // Whether `t` is a legal input i as it stands: CPU, dtype, shape of a whole call, contiguous, no gradient
  // wanted.
  bool accepts(size_t i, const at::TensorBase& t) const;
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  // Runs one call. Inputs as captured, in whole-call shapes; Error(kTypeMismatch) otherwise. `interrupted` is
  // asked about every 20 ms. Nothing while there is no device that accepts calls.
  std::optional<std::vector<at::Tensor>> run(at::ArrayRef<at::Tensor> inputs);
  void set_interrupted(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }
  // Before attaching: this is one process of a job (emulator::EngineOptions says what the two are).
  void set_job(int first_replica, std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange);

  // Another one for each run that began, of any executor of this process: what was read from the device under
  // a version is the newest as long as this gives the same.
  uint64_t weights_version() const { return weights_version_.load(std::memory_order_acquire); }

  // Host tensors to device variables of the same names and back, in place, converting element types. Names
  // that the program does not use are skipped. A variable whose value differs between groups of replicas has
  // one more dimension in front: an entry per group, or per replica where the grouping says so.
  void write_states(const std::map<std::string, at::Tensor>& states);
  void read_states(const std::map<std::string, at::Tensor>& states);
  std::map<std::string, at::Tensor> read_optimizer_state();
  void write_optimizer_state(const std::map<std::string, at::Tensor>& state);
  // Error(kOptimizer) when constants, kind or groups differ from the compiled ones.
  void set_optimizer(const optimizers::Spec& next);

  // What the random numbers of the next run depend on: the seed and how many runs went before.
  struct RandomState {
    uint64_t seed = 0, runs = 0;
  };
  void set_random_state(RandomState state);
  RandomState random_state();
  // Before attaching.
  void configure(const RunSettings& settings);
  // A fault took the device away: reading from it throws; detach() gives the IPUs back.
  bool is_lost();
  std::vector<std::string> tensor_names() const { return tensor_names_; }
  // Value of the last call; undefined when there is none.
  at::Tensor anchored(const std::string& short_name);
  bool has_anchor(const std::string& name) const { return anchors_.contains(name); }
  // Of the last run: host time in cycles of the device's clock. Error(kExecution) before the first run.
  int64_t cycles();
  // Begin and end, in seconds, of each element of each tensor moved in the last run.
  std::vector<std::vector<std::pair<double, double>>> transfer_times(bool inputs);

  int ipus_reserved() const { return executable_.ipus_reserved; }
  int first_ipu() const { return first_ipu_.load(std::memory_order_relaxed); }  // -1 while detached
  double compile_seconds() const { return executable_.compile_seconds; }
  const std::string& ir_text() const { return executable_.ir_text; }
  std::string program_text() const;
  const program::Program* program() const { return program_.get(); }
  const executable::Executable& executable() const { return executable_; }
  const executable::Signature& signature() const { return signature_; }
  const passes::Statistics& statistics() const { return executable_.statistics; }
  // Bytes of host memory that the device uses for each IPU; empty while detached.
  std::vector<int64_t> host_bytes();
  // Loads the program anew with or without tracing; states are kept.
  void set_trace(bool on);
  std::vector<emulator::TraceEvent> take_trace();

 private:
  static uint64_t first_version();
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
  };
  struct Anchor {
    int stream = -1;
    int64_t items = 0;
    std::vector<int64_t> shape;  // of a whole call
    at::ScalarType dtype = at::kFloat;
    at::Tensor value;
  };
  void build(Captured& captured, const CompileSettings& settings);
  void find_anchors();
  void bind_anchors();
  void bind_synthetic();
  void acquire();
  void release();
  void unload();
  const target::System& system() const;
  void bind_signature();  // fills in what run() reads
  void load();
  void bind_hypers();
  const program::Variable* find_variable(const std::string& name, int* index) const;
  emulator::Engine& loaded(const char* what);
  [[noreturn]] void raise_mismatch(size_t i, const at::TensorBase& t) const;
  void check_written(at::ArrayRef<at::Tensor> inputs) const;
  void warn_of_infinite(const std::string& name, const at::Tensor& wide);

  executable::Executable executable_;
  executable::Signature signature_;
  std::shared_ptr<const program::Program>
      program_;                               // nullptr: all outputs are constants, no device is needed
  std::unique_ptr<emulator::Engine> engine_;  // only with the lock of the device
  std::atomic<bool> attached_{false};         // engine_ != nullptr, for those who do not wait
  std::function<bool()> interrupted_;
  int first_replica_ = 0;
  std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange_;
  optimizers::Spec optimizer_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  struct Mutated {
    int input;
    Output output;
    at::Tensor replicas;    // the first replica of each group of inputs; undefined: all
    std::vector<int> also;  // inputs that must be the same tensor
  };
  std::vector<Mutated> mutated_;
  std::vector<float> hyper_values_;
  std::vector<emulator::StreamBinding> bindings_;  // hyper-parameters filled in
  OwnedLock device_{"the device of the model", OwnedLock::Again::kRefused};
  RunSettings run_settings_;
  std::vector<std::string> tensor_names_;
  std::map<std::string, Anchor> anchors_;
  std::vector<at::Tensor> synthetic_;  // per input
  bool has_run_ = false;
  std::atomic<bool> accepts_calls_{false};
  std::atomic<uint64_t> weights_version_{first_version()};
  bool has_wide_floats_ = false;  // f64 streams
  std::set<std::string> warned_of_infinite_;
  std::atomic<int> first_ipu_{-1};
  int reserved_ = 0;
  bool trace_ = false;
  RandomState random_state_;
  PhiloxKey run_seed_{};  // bound to the stream of the seed
};

}  // namespace ipu::frontends::torch_frontend
