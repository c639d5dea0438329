// What the host's passes may read of this computer and of the environment. A compiled program depends on it, so it
// is an option of the compilation and stands in the key of the executable cache; the machine form never sees it.
#pragma once

#include <cstdint>

namespace ipu::passes {

// Is planned recomputation carried out on the host?
enum class HostRecomputation : uint8_t { kNever, kWhenMemoryAsks, kAlways };

struct HostLimits {
  HostRecomputation recomputation = HostRecomputation::kWhenMemoryAsks;
  int64_t memory =
      INT64_MAX;  // bytes that values kept for the backward pass may take; read by kWhenMemoryAsks

  bool operator==(const HostLimits&) const = default;
  bool executes_recomputation(int64_t stash_bytes) const {
    return recomputation == HostRecomputation::kAlways ||
           (recomputation == HostRecomputation::kWhenMemoryAsks && stash_bytes > memory);
  }

  // POPTORCH_EXECUTE_RECOMPUTE: 1 always, 0 never; else POPTORCH_HOST_MEMORY in bytes, or the physical memory of
  // this computer. Limits that make the same programs are equal. Error(kEnvironment) for another value.
  static HostLimits from_environment();
};

}  // namespace ipu::passes
