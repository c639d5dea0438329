// A compiled program on a device, for every front end: the lease of the IPUs, the engine, variables, the seed,
// hyper-parameters, anchors. Not here: what a front end's tensors are, which of them meets which stream, and
// when weights are synchronised.
//
// Any thread may call anything. What looks at the device or changes what a run reads takes the lock of the
// device, which a run holds from beginning to end: such a call waits until the run is over. The rest is fixed
// after construction, or one atomic word.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/engine.h"
#include "emulator/streams/array_port.h"
#include "executable/compile.h"
#include "executable/signature.h"
#include "optimizers/optimizer.h"
#include "program/host_elements.h"
#include "runtime/anchors.h"
#include "runtime/device_lease.h"
#include "runtime/device_variables.h"
#include "runtime/host_view.h"
#include "runtime/hyper_parameters.h"
#include "support/owned_lock.h"
#include "support/philox.h"

namespace ipu::runtime {

// What may still be said after compiling; takes effect at the next attach.
struct RunSettings {
  DeviceRequest device;
  bool check_floating_point = false;
};

// Streams of the program that the session serves itself, in every run of the first entry point; the others are
// the caller's to bind.
struct ServedStreams {
  int seed = -1;  // u32[2], constant in a run; -1: none
  std::vector<executable::Signature::HyperStream> hypers;
  std::map<std::string, int> anchors;  // by name
  int rounding_seed = -1;              // as `seed`, of random rounding
};

class Session {
 public:
  // A program of nullptr needs no device: all results are known, and a run only counts. A dry run has none either,
  // and gets no device.
  Session(executable::Executable executable, ServedStreams served, optimizers::Spec optimizer);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const executable::Executable& executable() const { return executable_; }
  const program::Program* program() const { return program_.get(); }
  // Error(kExecution) when the program has none of that name.
  int find_entry(const std::string& name) const;
  // What a run of an entry point moves, by stream.
  const std::vector<program::HostElements>& elements(int entry) const { return elements_.at(entry); }
  std::string program_text() const;

  // --- the device
  void configure(const RunSettings& settings);
  // Asked about every 20 ms of waiting and running; true: Error(kInterrupted).
  void set_interrupted(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }
  // Before attaching: this is one process of a job (emulator::EngineOptions says what the two are).
  void set_job(int first_replica, std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange);
  // Before attaching: what the program calls by name (kernels/host/host_call.h).
  void set_host_functions(kernels::HostFunctions functions);
  // Acquires IPUs, where the caller has none for it (several sessions may use the same ones in turns), and loads the
  // program. Error(kNoDevice) when none is free; Error(kExecution) when attached already.
  void attach(std::shared_ptr<DeviceLease> lease = nullptr);
  void detach();  // releases them; state on the device is lost. Error(kExecution) when not attached
  // Between attaching and this there is no run: variables are still to be written. false: no more runs, the
  // current one has ended. true: does not wait, and throws nothing. Returns what held before.
  bool accept_calls(bool accept);
  bool accepts_calls();
  bool is_attached() const { return attached_.load(std::memory_order_acquire) || has_no_use_of_device(); }
  int first_ipu() const { return first_ipu_.load(std::memory_order_relaxed); }  // -1 while detached
  // A fault took the device away: reading from it throws; detach() gives the IPUs back.
  bool is_lost();

  // Holds the device: no run and no other access meanwhile.
  class Held {
   public:
    explicit Held(Session& session) : session_(session), hold_(session.device_) {}

   protected:
    Session& session_;

   private:
    OwnedLock::Hold hold_;
  };

  // One run: from the first binding to the end.
  class Call : public Held {
   public:
    explicit Call(Session& session) : Held(session) {}
    ~Call() {
      for (int stream : session_.bound_now_) session_.ports_[stream] = session_.owned_ports_[stream].get();
      session_.bound_now_.clear();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    bool is_accepted() const { return session_.has_no_use_of_device() || session_.accepts_calls_; }
    // `elements` elements in host dtype, one behind the other, for this call. What is owned the run may write
    // before it gives the element.
    void bind(int stream, std::byte* data, int64_t elements,
              emulator::Ownership ownership = emulator::Ownership::kShared) {
      session_.arrays_[stream].bind(data, elements, ownership);
      session_.ports_[stream] = &session_.arrays_[stream];
      session_.bound_now_.push_back(stream);
    }
    // Elements of such an array that the run has filled.
    int64_t filled(int stream) const { return session_.arrays_[stream].filled(); }
    // What stands behind the stream in all calls that bind nothing else to it; nullptr: nothing.
    void bind(int stream, std::shared_ptr<emulator::StreamPort> port) {
      session_.ports_[stream] = port.get();
      session_.owned_ports_[stream] = std::move(port);
    }
    // Streams that the entry point does not use need not be bound.
    void run(int entry = 0);
    // Finite f64 values of the host that became infinite in this run.
    int64_t take_narrowed_values() { return session_.engine_ ? session_.engine_->take_narrowed_values() : 0; }
  };

  // Variables of the device. What they are called is told by program(); what they hold needs the device.
  const DeviceVariables& variables() const { return variables_; }
  class Access : public Held {
   public:
    // Error(kExecution) when there is no device: "... needs a device".
    Access(Session& session, const char* purpose) : Held(session), engine_(session.loaded(purpose)) {}
    const DeviceVariables& variables() const { return session_.variables_; }
    void check(const program::Variable& variable, const ConstHostView& value) const {
      session_.variables_.check(variable, value);
    }
    void write(const program::Variable& variable, const ConstHostView& value) {
      session_.variables_.write(engine_, variable, value);
    }
    void read(const program::Variable& variable, const HostView& value) const {
      session_.variables_.read(engine_, variable, value);
    }

   private:
    emulator::Engine& engine_;
  };
  // Another one for each run that began, of any session of this process: what was read from the device under a
  // version is the newest as long as this gives the same.
  uint64_t weights_version() const { return weights_version_.load(std::memory_order_acquire); }

  void set_optimizer(const optimizers::Spec& next);  // HyperParameters::set
  // What the random numbers of the next run depend on: the seed and how many runs went before.
  struct RandomState {
    uint64_t seed = 0, runs = 0;
  };
  void set_random_state(RandomState state);
  void set_rounding_seed(uint64_t seed);  // of the runs to come, where rounding has a seed of its own
  RandomState random_state();

  // --- the last run
  bool has_anchor(const std::string& name) const { return anchors_.has(name); }
  HostArray anchored(const std::string& name);
  // Host time in cycles of the device's clock: of the whole run, and until one IPU of the first replica was done.
  // Error(kExecution) before the first run.
  int64_t cycles();
  int64_t cycles_of(int ipu);
  // Begin and end, in seconds, of each element of these streams; empty before the first run.
  std::vector<std::vector<std::pair<double, double>>> transfer_times(const std::vector<int>& streams);
  // Bytes of host memory that the device uses for each IPU; empty while detached.
  std::vector<int64_t> host_bytes();
  // From the next run on.
  void set_trace(bool on);
  std::vector<emulator::TraceEvent> take_trace();

 private:
  bool has_no_use_of_device() const { return !program_ && !executable_.is_dry; }
  static uint64_t first_version();
  void load();
  void unload();
  emulator::Engine& loaded(const char* purpose);
  int64_t cycles_in(const std::function<double(const emulator::Engine&)>& seconds);

  executable::Executable executable_;
  std::shared_ptr<const program::Program> program_;
  std::vector<std::vector<program::HostElements>> elements_;  // [entry point][stream]
  DeviceVariables variables_;
  HyperParameters hypers_;
  Anchors anchors_;
  OwnedLock device_{"the device of the model", OwnedLock::Again::kRefused};
  std::shared_ptr<DeviceLease> lease_;  // only with the lock of the device, as all that follows
  std::unique_ptr<emulator::Engine> engine_;
  std::vector<emulator::ArrayPort> arrays_;   // by stream of the program, as the next two
  std::vector<emulator::StreamPort*> ports_;  // nullptr: nothing was ever bound
  std::vector<std::shared_ptr<emulator::StreamPort>> owned_ports_;
  std::vector<int> bound_now_;  // streams of the call
  RunSettings settings_;
  std::function<bool()> interrupted_;
  int first_replica_ = 0;
  std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange_;
  kernels::HostFunctions host_functions_;
  bool has_run_ = false, trace_ = false;
  RandomState random_state_;
  PhiloxKey run_seed_{}, rounding_seed_{};  // bound to the streams of the seeds
  std::atomic<bool> attached_{false};       // engine_ != nullptr, for those who do not wait
  std::atomic<int> first_ipu_{-1};
  std::atomic<bool> accepts_calls_{false};
  std::atomic<uint64_t> weights_version_{first_version()};
};

}  // namespace ipu::runtime
