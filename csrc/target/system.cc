#include "target/system.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "support/error.h"

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
  throw Error(ErrorCode::kEnvironment, "unknown system '" + std::string(name) + "': known are " +
                                           known_names() +
                                           ". POPTORCH_EMULATED_SYSTEM says which one is emulated.");
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

namespace {
struct Occupancy {
  std::mutex mutex;
  std::vector<bool> taken;  // by IPU; grows to the largest system seen
};
Occupancy& occupancy() {
  static Occupancy state;
  return state;
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
                "Failed to acquire " + std::to_string(count) + " IPU(s): ask for at least one.");
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
  throw Error(ErrorCode::kNoDevice,
              "Failed to acquire " + std::to_string(count) + " IPU(s): the emulated system '" + system.name +
                  "' has " + std::to_string(system.num_ipus) + ", of which " + std::to_string(free) +
                  " are free; IPUs are given in aligned groups of a power of two. Detach a model that is not "
                  "in use, or "
                  "choose a larger system with POPTORCH_EMULATED_SYSTEM (" +
                  known_names() + ").");
}

void DevicePool::release(int first, int count) {
  Occupancy& state = occupancy();
  std::lock_guard lock(state.mutex);
  int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, 1))));
  for (int ipu = first; ipu < first + size; ++ipu) {
    IPU_CHECK(
        ipu >= 0 && static_cast<size_t>(ipu) < state.taken.size() && state.taken[static_cast<size_t>(ipu)],
        "IPU " + std::to_string(ipu) + " was not acquired");
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
