// The devices that units ask for by ordinal (unit_registry.h): a lease that all units of a device share, the order of their
// runs, and what their random numbers depend on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device_lease.h"

namespace ipu::runtime {

struct UnitDeviceSettings {
  int ipus = 1;                // the lease
  DeviceRequest request = {};  // which ones, or a software model
  bool compiles_only = false;  // a run is an error
  bool check_floating_point = false;
  bool stochastic_rounding = false;  // of f16 results
};

std::vector<UnitDeviceSettings> unit_devices();  // those that are configured; at first one, of one IPU
// What random numbers of the runs to come depend on, on the device of that ordinal, or on all (-1). Until the first call
// another seed for each device.
void seed_unit_devices(uint64_t seed, int ordinal = -1);

class UnitDevice {
 public:
  UnitDevice(int ordinal, const UnitDeviceSettings& settings);
  ~UnitDevice();  // work that waits is done all the same

  // The one that is configured now. Error(kNoDevice) when there are fewer.
  static std::shared_ptr<UnitDevice> find(int ordinal);
  static std::vector<std::shared_ptr<UnitDevice>> all();
  static void replace_all(const std::vector<UnitDeviceSettings>& settings);

  int ordinal() const { return ordinal_; }
  const UnitDeviceSettings& settings() const { return settings_; }
  // Held by who runs, from the first upload to the last download.
  std::mutex& turn() { return turn_; }
  // Of whoever has the turn: taken at the first call. Errors of DeviceLease.
  std::shared_ptr<DeviceLease> lease(const std::function<bool()>& interrupted);
  // Error(kNoDevice), reason "compiles_only", where nothing may run.
  void require_runs() const;
  void seed(uint64_t seed);
  struct RandomState {
    uint64_t seed, runs;
  };
  RandomState next_random_state();  // of the next run of some unit

  // Calls `work` on the thread of the device, after what was given before.
  void start(std::function<void()> work);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool has_thread = false, is_closed = false;
  };
  static void work_off(const std::shared_ptr<Queue>& queue);

  const int ordinal_;
  const UnitDeviceSettings settings_;
  std::mutex turn_;
  std::shared_ptr<DeviceLease> lease_;  // with the turn
  std::mutex random_mutex_;
  RandomState random_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

}  // namespace ipu::runtime
