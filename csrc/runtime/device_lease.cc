#include "runtime/device_lease.h"

#include <fmt/core.h>

#include <bit>

#include "emulator/faults/faults.h"
#include "runtime/device_pool.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::runtime {
namespace {

// Number of a group in the list of all aligned groups of 1, 2, 4, ... IPUs, smallest first.
int device_id(int first, int count) {
  const int width = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
  int id = first / width;
  for (int smaller = 1; smaller < width; smaller *= 2) id += target::attached_system().num_ipus / smaller;
  return id;
}

}  // namespace

DeviceLease::DeviceLease(int ipus, const DeviceRequest& request, const std::function<bool()>& interrupted) {
  emulator::add_faults_of_environment();
  emulator::require_usable_system();
  if (request.ipu_model) return;
  DevicePool& pool = DevicePool::instance();
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
      id_ = fixed ? request.ipu_id : device_id(first_, count_);
      if (log_enabled(LogLevel::kDebug))
        log(LogLevel::kDebug, fmt::format("Acquired {} IPU(s): running on device Id {}", count_, id_));
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kNoDevice || !request.wait_for_ipu || !could_have) throw;
      if (!waited) {
        log(LogLevel::kWarn, "waiting for IPUs (POPTORCH_WAIT_FOR_IPU): " + e.message());
        log(LogLevel::kTrace, "No IPU available, sleeping");
      }
    }
    constexpr int kSlice = 20;  // milliseconds
    pool.wait_for_release(kSlice);
    if (interrupted && interrupted())
      throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for IPUs");
  }
}

DeviceLease::~DeviceLease() {
  if (first_ < 0) return;
  DevicePool::instance().release(first_, count_);
  if (log_enabled(LogLevel::kDebug)) log(LogLevel::kDebug, fmt::format("Detached from device {}", id_));
}

}  // namespace ipu::runtime
