#include "runtime/device_lease.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/error.h"
#include "support/log.h"

namespace ipu::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSlice = 20;  // milliseconds

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Until others give IPUs back, or that long.
void wait_for_release(double milliseconds, const std::function<bool()>& interrupted) {
  DevicePool::instance().wait_for_release(static_cast<int>(std::ceil(milliseconds)));
  if (interrupted && interrupted())
    throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for IPUs");
}

}  // namespace

DeviceLease::DeviceLease(int ipus, const DeviceRequest& request, const std::function<bool()>& interrupted) {
  if (request.ipu_model) return;
  DevicePool& pool = DevicePool::instance();
  const bool fixed = request.ipu_id >= 0;
  const bool could_have =
      fixed ? request.ipu_id < pool.device_count() : ipus <= target::attached_system().num_ipus;
  const auto begin = Clock::now();
  for (bool waited = false;; waited = true) {
    try {
      const DeviceGroup group =
          fixed ? pool.acquire_device(request.ipu_id, ipus) : DeviceGroup{pool.acquire(ipus), ipus};
      first_ = group.first;
      count_ = group.count;
      if (fixed && count_ > ipus)
        log(LogLevel::kWarn, fmt::format("device Id {} has {} IPUs, the model uses {}: the others stay idle",
                                         request.ipu_id, count_, ipus));
      id_ = group.id();
      if (log_enabled(LogLevel::kDebug))
        log(LogLevel::kDebug, fmt::format("Acquired {} IPU(s): running on device Id {}", count_, id_));
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kNoDevice || !request.wait_for_ipu || !could_have) throw;
      if (request.wait_seconds >= 0.0 && seconds_since(begin) >= request.wait_seconds)
        throw Error(
            ErrorCode::kNoDevice,
            fmt::format("Failed to acquire {} IPU(s): none became free within {} seconds. Detach a model "
                        "that is not in use, or wait longer.",
                        ipus, request.wait_seconds));
      if (!waited) {
        log(LogLevel::kWarn, "waiting for IPUs (POPTORCH_WAIT_FOR_IPU): " + e.message());
        log(LogLevel::kTrace, "No IPU available, sleeping");
      }
    }
    wait_for_release(kSlice, interrupted);
  }
}

std::shared_ptr<DeviceLease> DeviceLease::take(const DeviceGroup& ipus, double seconds,
                                               const std::function<bool()>& interrupted) {
  const auto begin = Clock::now();
  while (!DevicePool::instance().try_acquire(ipus)) {
    const double rest = seconds - seconds_since(begin);
    if (rest <= 0) return nullptr;
    wait_for_release(std::min<double>(kSlice, 1000 * rest), interrupted);
  }
  return std::shared_ptr<DeviceLease>(new DeviceLease(ipus));
}

DeviceLease::~DeviceLease() {
  if (first_ < 0 || !process_.is_here()) return;
  DevicePool::instance().release(first_, count_);
  if (log_enabled(LogLevel::kDebug)) log(LogLevel::kDebug, fmt::format("Detached from device {}", id_));
}

}  // namespace ipu::runtime
