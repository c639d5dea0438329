// What the passes read of this computer and of the environment. A compiled program depends on it, so it
// stands in the key of the executable cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ipu::passes {

// POPTORCH_HOST_MEMORY in bytes, or else the physical memory of this computer. Error(kEnvironment) for a
// value that is no number.
int64_t host_memory();

// POPTORCH_EXECUTE_RECOMPUTE: 1 always, 0 never; nothing: when memory asks for it. Error(kEnvironment) for
// another value.
std::optional<bool> recomputation_wanted();

// Both as one text: equal texts, equal programs.
std::string host_limits_text();

}  // namespace ipu::passes
