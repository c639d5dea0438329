#include "runtime/host/unit_devices.h"

#include <fmt/core.h>

#include <random>
#include <thread>

#include "support/error.h"
#include "support/fork.h"

namespace ipu::runtime {
namespace {

using Devices = std::vector<std::shared_ptr<UnitDevice>>;

Devices devices_of(const std::vector<UnitDeviceSettings>& settings) {
  Devices devices;
  for (const UnitDeviceSettings& one : settings)
    devices.push_back(std::make_shared<UnitDevice>(static_cast<int>(devices.size()), one));
  return devices;
}

// A forked process has devices of its own, as it has a system of its own.
struct Configured {
  std::mutex mutex;
  Devices devices = devices_of({{}});
};
Configured& configured() { return of_this_process<Configured>(); }

uint64_t any_seed() {
  std::random_device draw;
  return static_cast<uint64_t>(draw()) << 32 | draw();
}

}  // namespace

std::vector<UnitDeviceSettings> unit_devices() {
  Configured& all = configured();
  std::lock_guard lock(all.mutex);
  std::vector<UnitDeviceSettings> settings;
  for (const auto& device : all.devices) settings.push_back(device->settings());
  return settings;
}

void seed_unit_devices(uint64_t seed, int ordinal) {
  if (ordinal >= 0) return UnitDevice::find(ordinal)->seed(seed);
  Configured& all = configured();
  std::lock_guard lock(all.mutex);
  for (const auto& device : all.devices) device->seed(seed);
}

UnitDevice::UnitDevice(int ordinal, const UnitDeviceSettings& settings)
    : ordinal_(ordinal), settings_(settings), random_{any_seed(), 0} {}

UnitDevice::~UnitDevice() {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->is_closed = true;
  }
  queue_->changed.notify_all();
}

void UnitDevice::replace_all(const std::vector<UnitDeviceSettings>& settings) {
  for (const UnitDeviceSettings& one : settings)
    if (one.ipus < 1)
      throw Error(ErrorCode::kOption,
                  fmt::format("a device of {} IPUs: it must have at least one", one.ipus));
  Devices devices = devices_of(settings);  // what was there ends behind the lock
  Configured& all = configured();
  std::lock_guard lock(all.mutex);
  all.devices.swap(devices);
}

std::shared_ptr<UnitDevice> UnitDevice::find(int ordinal) {
  Configured& all = configured();
  std::lock_guard lock(all.mutex);
  if (ordinal >= 0 && ordinal < std::ssize(all.devices)) return all.devices[static_cast<size_t>(ordinal)];
  throw Error(
      ErrorCode::kNoDevice,
      fmt::format("no such device: number {} was asked for, and {} {} configured. Configure one more, "
                  "or place the computation on a device that is there.",
                  ordinal, all.devices.size(), all.devices.size() == 1 ? "is" : "are"));
}

std::shared_ptr<DeviceLease> UnitDevice::lease(const std::function<bool()>& interrupted) {
  if (lease_ == nullptr)
    lease_ = std::make_shared<DeviceLease>(settings_.ipus, settings_.request, interrupted);
  return lease_;
}

void UnitDevice::require_runs() const {
  if (!settings_.compiles_only) return;
  throw Error(
      ErrorCode::kNoDevice,
      fmt::format("compilation only: device {} is configured without a connection, so nothing runs on it. "
                  "Configure it with a connection.",
                  ordinal_))
      .because("compiles_only");
}

std::vector<std::shared_ptr<UnitDevice>> UnitDevice::all() {
  Configured& all = configured();
  std::lock_guard lock(all.mutex);
  return all.devices;
}

void UnitDevice::seed(uint64_t seed) {
  std::lock_guard lock(random_mutex_);
  random_ = {seed, 0};
}

UnitDevice::RandomState UnitDevice::next_random_state() {
  std::lock_guard lock(random_mutex_);
  const RandomState now = random_;
  ++random_.runs;
  return now;
}

void UnitDevice::start(std::function<void()> work) {
  {
    std::lock_guard lock(queue_->mutex);
    queue_->work.push_back(std::move(work));
    if (!queue_->has_thread) std::thread(work_off, queue_).detach();
    queue_->has_thread = true;
  }
  queue_->changed.notify_all();
}

void UnitDevice::work_off(const std::shared_ptr<Queue>& queue) {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(queue->mutex);
      queue->changed.wait(lock, [&] { return queue->is_closed || !queue->work.empty(); });
      if (queue->work.empty()) return;
      work = std::move(queue->work.front());
      queue->work.pop_front();
    }
    work();
  }
}

}  // namespace ipu::runtime
