// Which IPUs of this process's system are in use.
#pragma once

namespace ipu::runtime {

// Hands out aligned groups of IPUs of this process's system. Thread-safe.
class DevicePool {
 public:
  static DevicePool& instance();
  // Lowest free aligned group of `count` IPUs (rounded up to a power of two); Error(kNoDevice) "Failed to
  // acquire N IPU(s)" when none is free. Returns the first IPU of the group.
  int acquire(int count);
  // Device `id` of the list of all aligned groups of 1, 2, 4, ... IPUs, smallest first; it must have room for
  // `count`. Error(kNoDevice) when it does not exist, is too small or in use. Returns its first IPU.
  int acquire_device(int id, int count, int* size);
  int device_count() const;
  // Waits until IPUs were released, or that long.
  void wait_for_release(int milliseconds);
  void release(int first, int count);
  int free_count() const;
};

}  // namespace ipu::runtime
