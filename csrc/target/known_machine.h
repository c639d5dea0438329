// The machine that somebody names.
#pragma once

#include <string>

#include "target/machine.h"

namespace ipu::target {

// As find_machine; Error(kEnvironment) with the nearest known name where there is none. "": the attached system, which is what
// POPTORCH_EMULATED_SYSTEM says (default pod16).
const Machine& known_machine(const std::string& name_or_path);

}  // namespace ipu::target
