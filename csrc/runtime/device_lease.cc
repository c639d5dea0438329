#include "runtime/device_lease.h"

#include <fmt/core.h>

#include "emulator/faults/faults.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::runtime {

DeviceLease::DeviceLease(int ipus, const DeviceRequest& request, const std::function<bool()>& interrupted) {
  emulator::add_faults_of_environment();
  emulator::require_usable_system();
  if (request.ipu_model) return;
  target::DevicePool& pool = target::DevicePool::instance();
  const bool fixed = request.ipu_id >= 0;
  const bool could_have =
      fixed ? request.ipu_id < pool.device_count() : ipus <= target::attached_system().num_ipus;
  for (bool waited = false;; waited = true) {
    try {
      count_ = ipus;
      first_ = fixed ? pool.acquire_device(request.ipu_id, ipus, &count_) : pool.acquire(ipus);
      if (fixed && count_ > ipus)
        log(LogLevel::kWarn, fmt::format("device Id {} has {} IPUs, the model uses {}: the others stay idle",
                                         request.ipu_id, count_, ipus));
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kNoDevice || !request.wait_for_ipu || !could_have) throw;
      if (!waited) log(LogLevel::kWarn, "waiting for IPUs (POPTORCH_WAIT_FOR_IPU): " + e.message());
    }
    constexpr int kSlice = 20;  // milliseconds
    pool.wait_for_release(kSlice);
    if (interrupted && interrupted())
      throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for IPUs");
  }
}

DeviceLease::~DeviceLease() {
  if (first_ >= 0) target::DevicePool::instance().release(first_, count_);
}

}  // namespace ipu::runtime
