#include "target/system.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "support/error.h"
#include "target/known_machine.h"

namespace ipu::target {
namespace {
std::string known_names() { return fmt::format("{}", fmt::join(machine_names(), ", ")); }

const char* attached_name() {
  const char* name = std::getenv("POPTORCH_EMULATED_SYSTEM");
  return name == nullptr || *name == '\0' ? "pod16" : name;
}

// The software model of a machine: 64 IPUs of it, with 4 tiles each when small.
System model_of(const char* version, const char* machine, bool small) {
  System system = find_system(machine);
  system.name = fmt::format("{}{} model", small ? "small " : "", version);
  system.num_ipus = 64;
  if (small) system.tiles_per_ipu = 4;
  return system;
}

}  // namespace

const System& find_system(std::string_view name) {
  const Machine* machine = find_machine(name);
  if (machine != nullptr) return machine->system;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("unknown system '{}': known are {}. POPTORCH_EMULATED_SYSTEM says which one is "
                          "emulated.",
                          name, known_names()));
}

std::vector<std::string> system_names() { return machine_names(); }

const System& attached_system() { return find_system(attached_name()); }

const Machine& known_machine(const std::string& name_or_path) {
  const Machine* found = find_machine(name_or_path.empty() ? attached_name() : name_or_path);
  if (found != nullptr) return *found;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("unknown machine '{}'{}: known are {}, and paths of machine files", name_or_path,
                          suggestion(name_or_path, machine_names()), known_names()));
}

const System* find_model(std::string_view version, bool small) {
  static const std::array<System, 6> models{
      model_of("ipu1", "gc2", false), model_of("ipu2", "gc200", false), model_of("ipu21", "bow", false),
      model_of("ipu1", "gc2", true),  model_of("ipu2", "gc200", true),  model_of("ipu21", "bow", true),
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
