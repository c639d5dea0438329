#include "target/system.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "support/error.h"
#include "support/fork.h"

namespace ipu::target {
namespace {

// Tiles and bytes per tile: Mk1 1216 x 256 KiB (Citadel, "Dissecting the Graphcore IPU architecture", 2019);
// Mk2 and Bow 1472 x 624 KiB (Knowles, Hot Chips 33, 2021). Clocks: Mk1 1.6 GHz (Citadel; the boards measured
// there), Mk2 1.33 GHz (as the SDK reports; 1.325 GHz physical), Bow 1.85 GHz (Bow product brief): the only
// thing Bow changes.
constexpr int kMk1Tiles = 1216, kMk2Tiles = 1472;
constexpr int64_t kMk1Bytes = 256 * 1024, kMk2Bytes = 624 * 1024;
constexpr double kMk1Clock = 1.6e9, kMk2Clock = 1.33e9, kBowClock = 1.85e9;

const std::vector<System>& systems() {
  static const std::vector<System> list{
      {"bow-pod16", 21, 16, kMk2Tiles, kMk2Bytes, kBowClock},
      {"mk1-16", 1, 16, kMk1Tiles, kMk1Bytes, kMk1Clock},
      {"pod16", 2, 16, kMk2Tiles, kMk2Bytes, kMk2Clock},
      {"pod4", 2, 4, kMk2Tiles, kMk2Bytes, kMk2Clock},
      {"pod64", 2, 64, kMk2Tiles, kMk2Bytes, kMk2Clock},
  };
  return list;
}

std::string known_names() {
  std::string text;
  for (const System& system : systems()) text += (text.empty() ? "" : ", ") + system.name;
  return text;
}

}  // namespace

const System& find_system(std::string_view name) {
  for (const System& system : systems())
    if (system.name == name) return system;
  throw Error(
      ErrorCode::kEnvironment,
      fmt::format("unknown system '{}': known are {}. POPTORCH_EMULATED_SYSTEM says which one is emulated.",
                  name, known_names()));
}

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const System& system : systems()) names.push_back(system.name);
  return names;
}

const System& attached_system() {
  const char* name = std::getenv("POPTORCH_EMULATED_SYSTEM");
  return find_system(name == nullptr || *name == '\0' ? "pod16" : name);
}

const System& model_system(bool small) {
  static const std::vector<System> models{
      {"ipu1 model", 1, 64, kMk1Tiles, kMk1Bytes, kMk1Clock},
      {"ipu2 model", 2, 64, kMk2Tiles, kMk2Bytes, kMk2Clock},
      {"ipu21 model", 21, 64, kMk2Tiles, kMk2Bytes, kBowClock},
      {"small ipu1 model", 1, 64, 4, kMk1Bytes, kMk1Clock},
      {"small ipu2 model", 2, 64, 4, kMk2Bytes, kMk2Clock},
      {"small ipu21 model", 21, 64, 4, kMk2Bytes, kBowClock},
  };
  const char* text = std::getenv("POPTORCH_IPU_MODEL_VERSION");
  const std::string version = text == nullptr || *text == '\0' ? "ipu2" : text;
  const size_t first = small ? 3 : 0;
  if (version == "ipu1") return models[first];
  if (version == "ipu2" || version.starts_with("ipu:")) return models[first + 1];
  if (version == "ipu21") return models[first + 2];
  throw Error(ErrorCode::kEnvironment,
              fmt::format("invalid environment variable: POPTORCH_IPU_MODEL_VERSION is '{}', "
                          "expected ipu1, ipu2 or ipu21",
                          version));
}

namespace {
struct Occupancy {
  std::mutex mutex;
  std::condition_variable released;
  std::vector<bool> taken;  // by IPU; grows to the largest system seen
};
Occupancy* state_of_this_process = nullptr;

// A forked process is another emulated system, none of whose IPUs is in use: wrappers stay with their
// process.
Occupancy& occupancy() {
  static const bool made = [] {
    state_of_this_process = new Occupancy;
    in_forked_child([] { state_of_this_process = new Occupancy; });
    return true;
  }();
  (void)made;
  return *state_of_this_process;
}
}  // namespace

DevicePool& DevicePool::instance() {
  static DevicePool pool;
  return pool;
}

int DevicePool::acquire(int count) {
  const System& system = attached_system();
  if (count < 1)
    throw Error(ErrorCode::kNoDevice,
                fmt::format("Failed to acquire {} IPU(s): ask for at least one.", count));
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  if (state.taken.size() < static_cast<size_t>(system.num_ipus))
    state.taken.resize(static_cast<size_t>(system.num_ipus), false);
  int free = static_cast<int>(std::count(state.taken.begin(), state.taken.begin() + system.num_ipus, false));
  if (count <= system.num_ipus) {
    int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
    for (int first = 0; first + size <= system.num_ipus; first += size) {
      auto begin = state.taken.begin() + first;
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
                  count, system.name, system.num_ipus, free, known_names()));
}

int DevicePool::device_count() const {
  int devices = 0;
  for (int size = 1, ipus = attached_system().num_ipus; size <= ipus; size *= 2) devices += ipus / size;
  return devices;
}

int DevicePool::acquire_device(int id, int count, int* size) {
  const System& system = attached_system();
  int rest = id, width = 1;
  while (width <= system.num_ipus && rest >= system.num_ipus / width) {
    rest -= system.num_ipus / width;
    width *= 2;
  }
  const std::string what = fmt::format("Failed to acquire device Id {}: ", id);
  if (id < 0 || width > system.num_ipus)
    throw Error(ErrorCode::kNoDevice, fmt::format("{}the emulated system '{}' has devices 0 to {}.", what,
                                                  system.name, device_count() - 1));
  if (count > width)
    throw Error(ErrorCode::kNoDevice,
                fmt::format("{}it has {} IPU(s), and the model needs {} (replicas x IPUs of one replica).",
                            what, width, count));
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  if (state.taken.size() < static_cast<size_t>(system.num_ipus))
    state.taken.resize(static_cast<size_t>(system.num_ipus), false);
  auto begin = state.taken.begin() + rest * width;
  if (std::find(begin, begin + width, true) != begin + width)
    throw Error(ErrorCode::kNoDevice, what + "it is in use. Detach the model that holds it.");
  std::fill(begin, begin + width, true);
  *size = width;
  return rest * width;
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
  const System& system = attached_system();
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  int taken = 0;
  for (size_t ipu = 0; ipu < state.taken.size() && ipu < static_cast<size_t>(system.num_ipus); ++ipu)
    taken += state.taken[ipu];
  return system.num_ipus - taken;
}

}  // namespace ipu::target
