// The emulated system in numbers. Every number about the machine sits in target/ with its source beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::target {

struct System {
  std::string name;     // "pod16"
  int ipu_version = 2;  // 1, 2, 21: poptorch.ipuHardwareVersion()
  int num_ipus = 16;    // attached to this process
  int tiles_per_ipu = 1472;
  int64_t bytes_per_tile = 638'976;
  double clock_hz = 1.33e9;
  int workers_per_tile = 6;

  int64_t bytes_per_ipu() const { return tiles_per_ipu * bytes_per_tile; }
};

// "pod4", "pod16", "pod64", "bow-pod16", "mk1-16"; Error(kEnvironment) listing the names otherwise.
const System& find_system(std::string_view name);
std::vector<std::string> system_names();
// What POPTORCH_EMULATED_SYSTEM says (default pod16), read at each call.
const System& attached_system();

// The software model of an IPU of that architecture, "ipu1", "ipu2" or "ipu21", 4 tiles when `small`; nullptr: there is
// none of that name.
const System* find_model(std::string_view version, bool small);
// The one that POPTORCH_IPU_MODEL_VERSION says (default ipu2). Error(kEnvironment) listing the versions.
const System& model_system(bool small);

}  // namespace ipu::target
