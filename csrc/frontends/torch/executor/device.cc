// What an executor does with the machine around a run: acquiring IPUs, faults, synthetic data, counters.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/normal.h>

#include "emulator/faults/faults.h"
#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "support/log.h"
#include "target/system.h"

namespace ipu::frontends::torch_frontend {

void Executor::acquire() {
  emulator::add_faults_of_environment();
  emulator::require_usable_system();
  if (run_settings_.ipu_model) return;
  target::DevicePool& pool = target::DevicePool::instance();
  const int needed = executable_.ipus_reserved;
  const bool could_have = run_settings_.ipu_id >= 0 ? run_settings_.ipu_id < pool.device_count()
                                                    : needed <= target::attached_system().num_ipus;
  for (int64_t waited_ms = 0;;) {
    try {
      reserved_ = needed;
      first_ipu_ = run_settings_.ipu_id < 0 ? pool.acquire(needed)
                                            : pool.acquire_device(run_settings_.ipu_id, needed, &reserved_);
      if (run_settings_.ipu_id >= 0 && reserved_ > needed)
        log(LogLevel::kWarn, "device Id " + std::to_string(run_settings_.ipu_id) + " has " +
                                 std::to_string(reserved_) + " IPUs, the model uses " +
                                 std::to_string(needed) + ": the others stay idle");
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kNoDevice || !run_settings_.wait_for_ipu || !could_have) throw;
      if (waited_ms == 0) log(LogLevel::kWarn, "waiting for IPUs (POPTORCH_WAIT_FOR_IPU): " + e.message());
    }
    constexpr int kSlice = 20;
    pool.wait_for_release(kSlice);
    waited_ms += kSlice;
    if (interrupted_ && interrupted_())
      throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for IPUs");
  }
}

void Executor::release() {
  if (first_ipu_ >= 0) target::DevicePool::instance().release(first_ipu_, reserved_);
  first_ipu_ = -1;
}

bool Executor::is_lost() {
  OwnedLock::Hold device(device_);
  return engine_ != nullptr && engine_->is_lost();
}

std::vector<int64_t> Executor::host_bytes() {
  OwnedLock::Hold device(device_);
  std::vector<int64_t> bytes;
  for (size_t i = 0; engine_ != nullptr && i < program_->ipus.size(); ++i)
    bytes.push_back(engine_->host_bytes(static_cast<int>(i)));
  return bytes;
}

// The same values in every run: what is measured does not depend on the data.
void Executor::bind_synthetic() {
  if (synthetic_.empty()) {
    for (const Input& input : inputs_) {
      at::Tensor data = at::detail::empty_cpu(input.shape, input.stream_dtype);
      data.zero_();
      if (run_settings_.synthetic_data == 2 && at::isFloatingType(input.stream_dtype))
        data.normal_(0.0, 1.0, at::detail::createCPUGenerator(input.shape.size() + synthetic_.size()));
      synthetic_.push_back(std::move(data));
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    for (int s : inputs_[i].streams)
      bindings_[s] = {static_cast<std::byte*>(synthetic_[i].mutable_data_ptr()), inputs_[i].items};
}

int64_t Executor::cycles() {
  OwnedLock::Hold device(device_);
  if (!has_run_) throw Error(ErrorCode::kExecution, "no cycle count: the model has not run yet");
  if (!program_) return 0;
  return static_cast<int64_t>(loaded("reading the cycle count").last_run_seconds() * system().clock_hz);
}

const target::System& Executor::system() const {
  return run_settings_.ipu_model ? target::model_system(run_settings_.small_model)
                                 : target::attached_system();
}

std::vector<std::vector<std::pair<double, double>>> Executor::transfer_times(bool inputs) {
  OwnedLock::Hold device(device_);
  std::vector<std::vector<std::pair<double, double>>> times;
  if (!has_run_ || engine_ == nullptr || run_settings_.synthetic_data != 0) return times;
  if (inputs) {
    for (const Input& input : inputs_)
      if (!input.streams.empty()) times.push_back(engine_->stream_times(input.streams.front()));
  } else {
    for (const Output& output : outputs_)
      if (output.stream >= 0 && output.same_as < 0) times.push_back(engine_->stream_times(output.stream));
  }
  return times;
}

}  // namespace ipu::frontends::torch_frontend
