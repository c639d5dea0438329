#include "runtime/session.h"

#include <fmt/core.h>

#include "emulator/faults/faults.h"
#include "support/log.h"
#include "support/wording.h"

namespace ipu::runtime {

Session::Session(executable::Executable executable, ServedStreams served, optimizers::Spec optimizer)
    : executable_(std::move(executable)),
      program_(executable_.program),
      variables_(program_),
      hypers_(std::move(served.hypers), std::move(optimizer)),
      anchors_(program_.get(), served.anchors) {
  if (!program_) return;
  for (size_t e = 0; e < program_->entry_points.size(); ++e)
    elements_.push_back(program::host_elements(*program_, static_cast<int>(e)));
  arrays_ = std::vector<emulator::ArrayPort>(program_->streams.size());
  ports_.resize(arrays_.size());
  owned_ports_.resize(arrays_.size());
  const auto serve = [&](int stream) { ports_[stream] = &arrays_[stream]; };
  hypers_.bind(arrays_);
  for (const executable::Signature::HyperStream& hyper : hypers_.streams()) serve(hyper.stream);
  for (const auto& [name, stream] : served.anchors) serve(stream);
  for (const auto& [stream, seed] :
       {std::pair{served.seed, &run_seed_}, {served.rounding_seed, &rounding_seed_}}) {
    if (stream < 0) continue;
    arrays_[stream].bind(reinterpret_cast<std::byte*>(seed->data()), 1);
    serve(stream);
  }
}

int Session::find_entry(const std::string& name) const {
  const int entry = program_ ? program_->find_entry(name) : -1;
  if (entry >= 0) return entry;
  std::string known;
  if (program_)
    for (const std::string& other : program_->entry_points) known += (known.empty() ? "" : ", ") + other;
  throw Error(ErrorCode::kExecution,
              fmt::format("no entry point: the program has none called '{}'; it has {}", name, known))
      .because("no_entry_point");
}

Session::~Session() {  // nobody else has it any more
  if (device_.is_here()) return;
  // Its threads and the owners of its locks are in another process, and so are its IPUs.
  (void)engine_.release();
}

std::string Session::program_text() const { return program_ ? program::print(*program_) : std::string(); }

emulator::Engine& Session::loaded(const char* purpose) {
  if (engine_ == nullptr) {
    throw worded(ErrorCode::kExecution, "not_attached", "not attached: {purpose} needs a device.",
                 {{"purpose", purpose}});
  }
  return *engine_;
}

void Session::load() {
  emulator::EngineOptions options;
  options.trace = trace_;
  options.check_floating_point = settings_.check_floating_point;
  options.interrupted = [this] { return interrupted_ && interrupted_(); };
  options.first_replica = first_replica_;
  options.exchange = exchange_;
  options.host_functions = host_functions_;
  // Workers that wait for other processes in different orders would wait for ever.
  if (exchange_ && program_->ipu_count() > 1) options.threads = 1;
  engine_ = std::make_unique<emulator::Engine>(program_, options);
  attached_.store(true, std::memory_order_release);
}

void Session::unload() {
  attached_.store(false, std::memory_order_release);
  accepts_calls_ = false;
  engine_.reset();
  has_run_ = false;
  first_ipu_ = -1;
  lease_.reset();
}

void Session::set_job(int first_replica,
                      std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange) {
  OwnedLock::Hold device(device_);
  first_replica_ = first_replica;
  exchange_ = std::move(exchange);
}

void Session::set_host_functions(kernels::HostFunctions functions) {
  OwnedLock::Hold device(device_);
  host_functions_ = std::move(functions);
}

void Session::configure(const RunSettings& settings) {
  OwnedLock::Hold device(device_);
  settings_ = settings;
}

void Session::attach(std::shared_ptr<DeviceLease> lease) {
  IPU_CHECK(!executable_.is_dry, "a dry run has no program for a device");
  if (!program_) return;
  OwnedLock::Hold device(device_);
  if (engine_ != nullptr)
    throw Error(ErrorCode::kExecution, "already attached: the model holds a device")
        .because("already_attached");
  ErrorContext activity("attaching to a device");
  emulator::add_faults_of_environment();
  emulator::require_usable_system();
  if (lease == nullptr)
    lease = std::make_shared<DeviceLease>(executable_.ipus_reserved, settings_.device, interrupted_);
  load();
  first_ipu_ = lease->first_ipu();
  if (log_enabled(LogLevel::kTrace)) log(LogLevel::kTrace, fmt::format("Attached to device {}", lease->id()));
  log_backend("devicex", LogLevel::kTrace, "the program is loaded");
  lease_ = std::move(lease);
}

void Session::detach() {
  if (!program_) return;
  OwnedLock::Hold device(device_);
  loaded("detaching");
  unload();
}

bool Session::accept_calls(bool accept) {
  if (accept) return accepts_calls_.exchange(attached_.load(std::memory_order_acquire));
  OwnedLock::Hold device(device_);
  return accepts_calls_.exchange(false);
}

bool Session::accepts_calls() {
  OwnedLock::Hold device(device_);
  return has_no_use_of_device() || accepts_calls_;
}

bool Session::is_lost() {
  OwnedLock::Hold device(device_);
  return engine_ != nullptr && engine_->is_lost();
}

// Room for 2^40 runs of each session.
uint64_t Session::first_version() {
  static std::atomic<uint64_t> sessions{0};
  return ++sessions << 40;
}

void Session::Call::run(int entry) {
  Session& s = session_;
  s.run_seed_ = seed_of_run(s.random_state_.seed, s.random_state_.runs);
  if (entry == 0) s.anchors_.bind(s.arrays_);
  // Before: a run that fails may have updated some.
  s.weights_version_.fetch_add(1, std::memory_order_release);
  if (s.program_) s.loaded("running").run(s.ports_, entry);  // another thread may have detached
  ++s.random_state_.runs;
  s.has_run_ = true;
}

void Session::set_optimizer(const optimizers::Spec& next) {
  OwnedLock::Hold device(device_);
  hypers_.set(next);
}

void Session::set_random_state(RandomState state) {
  OwnedLock::Hold device(device_);
  random_state_ = state;
}

void Session::set_rounding_seed(uint64_t seed) {
  OwnedLock::Hold device(device_);
  rounding_seed_ = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

Session::RandomState Session::random_state() {
  OwnedLock::Hold device(device_);
  return random_state_;
}

HostArray Session::anchored(const std::string& name) {
  OwnedLock::Hold device(device_);
  return anchors_.value(name);
}

int64_t Session::cycles() {
  return cycles_in([](const emulator::Engine& engine) { return engine.last_run_seconds(); });
}

int64_t Session::cycles_of(int ipu) {
  return cycles_in([ipu](const emulator::Engine& engine) { return engine.last_run_seconds(ipu); });
}

int64_t Session::cycles_in(const std::function<double(const emulator::Engine&)>& seconds) {
  OwnedLock::Hold device(device_);
  if (!has_run_)
    throw Error(ErrorCode::kExecution, "no cycle count: the model has not run yet").because("not_run");
  if (!program_) return 0;
  return static_cast<int64_t>(seconds(loaded("reading the cycle count")) *
                              settings_.device.system().clock_hz);
}

std::vector<std::vector<std::pair<double, double>>> Session::transfer_times(const std::vector<int>& streams) {
  OwnedLock::Hold device(device_);
  std::vector<std::vector<std::pair<double, double>>> times;
  if (!has_run_ || engine_ == nullptr) return times;
  for (int stream : streams) times.push_back(engine_->stream_times(stream));
  return times;
}

std::vector<int64_t> Session::host_bytes() {
  OwnedLock::Hold device(device_);
  std::vector<int64_t> bytes;
  for (int i = 0; engine_ != nullptr && i < program_->ipu_count(); ++i)
    bytes.push_back(engine_->host_bytes(i));
  return bytes;
}

void Session::set_trace(bool on) {
  OwnedLock::Hold device(device_);
  trace_ = on;
  if (engine_ != nullptr) engine_->set_trace(on);
}

std::vector<emulator::TraceEvent> Session::take_trace() {
  OwnedLock::Hold device(device_);
  return engine_ == nullptr ? std::vector<emulator::TraceEvent>() : engine_->take_trace();
}

}  // namespace ipu::runtime
