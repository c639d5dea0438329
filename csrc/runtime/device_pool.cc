#include "runtime/device_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "support/error.h"
#include "support/fork.h"
#include "target/system.h"

namespace ipu::runtime {
namespace {
struct Occupancy {
  std::mutex mutex;
  std::condition_variable released;
  std::vector<bool> taken;  // by IPU; grows to the largest system seen
};

// A forked process is another emulated system, none of whose IPUs is in use: wrappers stay with their
// process.
Occupancy& occupancy() { return of_this_process<Occupancy>(); }
// Of this system; to be called with the mutex.
std::vector<bool>::iterator places(Occupancy& state) {
  const auto ipus = static_cast<size_t>(target::attached_system().num_ipus);
  if (state.taken.size() < ipus) state.taken.resize(ipus, false);
  return state.taken.begin();
}
}  // namespace

std::optional<DeviceGroup> DeviceGroup::of_id(int id) {
  const int ipus = target::attached_system().num_ipus;
  int rest = id, width = 1;
  for (; width <= ipus && rest >= ipus / width; width *= 2) rest -= ipus / width;
  if (id < 0 || width > ipus) return std::nullopt;
  return DeviceGroup{rest * width, width};
}

int DeviceGroup::id() const {
  const int width = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
  int id = first / width;
  for (int smaller = 1; smaller < width; smaller *= 2) id += target::attached_system().num_ipus / smaller;
  return id;
}

DevicePool& DevicePool::instance() {
  static DevicePool pool;
  return pool;
}

int DevicePool::acquire(int count) {
  const target::System& system = target::attached_system();
  if (count < 1)
    throw Error(ErrorCode::kNoDevice,
                fmt::format("Failed to acquire {} IPU(s): ask for at least one.", count));
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  const auto first_ipu = places(state);
  int free = static_cast<int>(std::count(first_ipu, first_ipu + system.num_ipus, false));
  if (count <= system.num_ipus) {
    int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
    for (int first = 0; first + size <= system.num_ipus; first += size) {
      auto begin = first_ipu + first;
      if (std::find(begin, begin + size, true) != begin + size) continue;
      std::fill(begin, begin + size, true);
      return first;
    }
  }
  throw Error(
      ErrorCode::kNoDevice,
      fmt::format("Failed to acquire {} IPU(s): the emulated system '{}' has {}, of which {} are free; "
                  "IPUs are given in aligned groups of a power of two. Detach a model that is not in use, "
                  "or choose a larger system with POPTORCH_EMULATED_SYSTEM ({}).",
                  count, system.name, system.num_ipus, free, fmt::join(target::system_names(), ", ")));
}

int DevicePool::device_count() const {
  int devices = 0;
  for (int size = 1, ipus = target::attached_system().num_ipus; size <= ipus; size *= 2)
    devices += ipus / size;
  return devices;
}

bool DevicePool::try_acquire(const DeviceGroup& group) {
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  if (group.first + group.count > target::attached_system().num_ipus) return false;
  const auto begin = places(state) + group.first, end = begin + group.count;
  if (std::find(begin, end, true) != end) return false;
  std::fill(begin, end, true);
  return true;
}

DeviceGroup DevicePool::acquire_device(int id, int count) {
  const std::optional<DeviceGroup> group = DeviceGroup::of_id(id);
  const std::string what = fmt::format("Failed to acquire device Id {}: ", id);
  if (!group)
    throw Error(ErrorCode::kNoDevice, fmt::format("{}the emulated system '{}' has devices 0 to {}.", what,
                                                  target::attached_system().name, device_count() - 1));
  if (count > group->count)
    throw Error(ErrorCode::kNoDevice,
                fmt::format("{}it has {} IPU(s), and the model needs {} (replicas x IPUs of one replica).",
                            what, group->count, count));
  if (!try_acquire(*group))
    throw Error(ErrorCode::kNoDevice, what + "it is in use. Detach the model that holds it.");
  return *group;
}

void DevicePool::wait_for_release(int milliseconds) {
  Occupancy& state = occupancy();
  std::unique_lock lock(state.mutex);
  state.released.wait_for(lock, std::chrono::milliseconds(milliseconds));
}

void DevicePool::release(int first, int count) {
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  state.released.notify_all();
  int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, 1))));
  for (int ipu = first; ipu < first + size; ++ipu) {
    IPU_CHECK(
        ipu >= 0 && static_cast<size_t>(ipu) < state.taken.size() && state.taken[static_cast<size_t>(ipu)],
        fmt::format("IPU {} was not acquired", ipu));
    state.taken[static_cast<size_t>(ipu)] = false;
  }
}

int DevicePool::free_count() const {
  const target::System& system = target::attached_system();
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  int taken = 0;
  for (size_t ipu = 0; ipu < state.taken.size() && ipu < static_cast<size_t>(system.num_ipus); ++ipu)
    taken += state.taken[ipu];
  return system.num_ipus - taken;
}

}  // namespace ipu::runtime
