#include "target/system.h"

#include <fmt/format.h>

#include <cstdlib>

#include "support/error.h"

namespace ipu::target {
namespace {

// Tiles and bytes per tile: Mk1 1216 x 256 KiB (Citadel, "Dissecting the Graphcore IPU architecture", 2019);
// Mk2 and Bow 1472 x 624 KiB (Knowles, Hot Chips 33, 2021). Clocks: Mk1 1.6 GHz (Citadel; the boards measured
// there), Mk2 1.33 GHz (as the SDK reports; 1.325 GHz physical), Bow 1.85 GHz (Bow product brief): the only
// thing Bow changes.
constexpr int kMk1Tiles = 1216, kMk2Tiles = 1472, kSmallTiles = 4;
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

}  // namespace

const System& find_system(std::string_view name) {
  for (const System& system : systems())
    if (system.name == name) return system;
  throw Error(
      ErrorCode::kEnvironment,
      fmt::format("unknown system '{}': known are {}. POPTORCH_EMULATED_SYSTEM says which one is emulated.",
                  name, fmt::join(system_names(), ", ")));
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

const System* find_model(std::string_view version, bool small) {
  static const std::vector<System> models{
      {"ipu1 model", 1, 64, kMk1Tiles, kMk1Bytes, kMk1Clock},
      {"ipu2 model", 2, 64, kMk2Tiles, kMk2Bytes, kMk2Clock},
      {"ipu21 model", 21, 64, kMk2Tiles, kMk2Bytes, kBowClock},
      {"small ipu1 model", 1, 64, kSmallTiles, kMk1Bytes, kMk1Clock},
      {"small ipu2 model", 2, 64, kSmallTiles, kMk2Bytes, kMk2Clock},
      {"small ipu21 model", 21, 64, kSmallTiles, kMk2Bytes, kBowClock},
  };
  const size_t first = small ? 3 : 0;
  if (version == "ipu1") return &models[first];
  if (version == "ipu2") return &models[first + 1];
  if (version == "ipu21") return &models[first + 2];
  return nullptr;
}

const System& model_system(bool small) {
  const char* text = std::getenv("POPTORCH_IPU_MODEL_VERSION");
  const std::string_view version = text == nullptr || *text == '\0' ? "ipu2" : text;
  const System* model = find_model(version.starts_with("ipu:") ? "ipu2" : version, small);
  if (model != nullptr) return *model;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("invalid environment variable: POPTORCH_IPU_MODEL_VERSION is '{}', "
                          "expected ipu1, ipu2 or ipu21",
                          version));
}

}  // namespace ipu::target
