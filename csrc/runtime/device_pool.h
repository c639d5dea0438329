// Which IPUs of this process's system are in use.
#pragma once

#include <optional>

namespace ipu::runtime {

// `count` IPUs from `first` on: 1, 2, 4, ... of them, aligned. All such groups of a system have a number, the device id:
// the smallest groups first.
struct DeviceGroup {
  int first = 0, count = 1;
  static std::optional<DeviceGroup> of_id(int id);  // nothing: there is no such device
  int id() const;                                   // `count` is rounded up to a power of two
};

// Hands out such groups. Thread-safe.
class DevicePool {
 public:
  static DevicePool& instance();
  // Lowest free aligned group of `count` IPUs (rounded up to a power of two); Error(kNoDevice) "Failed to
  // acquire N IPU(s)" when none is free. Returns the first IPU of the group.
  int acquire(int count);
  // Device `id`, which must have room for `count`. Error(kNoDevice) when it does not exist, is too small or in use.
  DeviceGroup acquire_device(int id, int count);
  bool try_acquire(const DeviceGroup& group);  // false: not all of these IPUs are free
  int device_count() const;
  // Waits until IPUs were released, or that long.
  void wait_for_release(int milliseconds);
  void release(int first, int count);
  int free_count() const;
};

}  // namespace ipu::runtime
