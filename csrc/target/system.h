// The emulated system in numbers, which the files of machines/ say with their sources (target/machine.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::target {

struct System {
  std::string name;     // "pod16"
  int ipu_version = 0;  // 1, 2, 21: poptorch.ipuHardwareVersion()
  int num_ipus = 0;     // attached to this process
  int tiles_per_ipu = 0;
  int64_t bytes_per_tile = 0;
  double clock_hz = 0;
  int workers_per_tile = 0;

  int64_t bytes_per_ipu() const { return tiles_per_ipu * bytes_per_tile; }
};

// A machine by its name ("pod16") or the path of a machine file; Error(kEnvironment) listing the names otherwise.
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
