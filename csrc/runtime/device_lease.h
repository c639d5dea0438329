// IPUs of this process's system, held from here to the end of the object.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device_pool.h"
#include "support/fork.h"
#include "target/system.h"

namespace ipu::runtime {

// Which machine a session wants.
struct DeviceRequest {
  bool ipu_model = false, small_model = false;  // a software model: it takes no IPU of the system
  int ipu_id = -1;                              // a device of the list of all groups of IPUs; -1: any
  bool wait_for_ipu = false;                    // until others give enough IPUs back
  double wait_seconds = -1.0;                   // or so long; negative: as long as it takes

  const target::System& system() const {
    return ipu_model ? target::model_system(small_model) : target::attached_system();
  }
};

class DeviceLease {
 public:
  // Error(kNoDevice) when there are not `ipus` free ones. `interrupted` is asked about every 20 ms of waiting:
  // Error(kInterrupted).
  DeviceLease(int ipus, const DeviceRequest& request, const std::function<bool()>& interrupted);
  // These IPUs; nullptr: others have held some of them for so many seconds. Error(kInterrupted) as above.
  static std::shared_ptr<DeviceLease> take(const DeviceGroup& ipus, double seconds,
                                           const std::function<bool()>& interrupted);
  ~DeviceLease();
  DeviceLease(const DeviceLease&) = delete;
  DeviceLease& operator=(const DeviceLease&) = delete;

  int first_ipu() const { return first_; }  // -1: a software model
  int id() const { return id_; }            // of the group of IPUs; -1: a software model

 private:
  explicit DeviceLease(const DeviceGroup& taken)
      : first_(taken.first), count_(taken.count), id_(taken.id()) {}
  OwnProcess process_;  // a forked process has other IPUs
  int first_ = -1, count_ = 0, id_ = -1;
};

}  // namespace ipu::runtime
