// What collectives share. A collective is a kernel from the operands of all members of a group to their
// results: operand and result i are member i's. All operands have one spec, and so have all results. A result
// of nullptr is not wanted here: its member runs in another process. Who brings the members together: the
// emulator.
#pragma once

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"

namespace ipu::kernels {

// Throws unless there is a member, every member has the operand and the result of the first, in memory without
// gaps, and both are of one element type of at most 8 bytes.
void require_members(const KernelRequest& request);
// The same for kernels that look at shapes: both are plain.
void require_plain_members(const KernelRequest& request);

inline int64_t member_count(const KernelRequest& request) {
  return static_cast<int64_t>(request.operands.size());
}

// All of every operand and result.
Footprint footprint_of_members(const KernelRequest& request);

// Whether `footprint` accepts the request; for prepare(), which refuses by nullptr.
bool is_accepted(const KernelRequest& request, Footprint (*footprint)(const KernelRequest&));

}  // namespace ipu::kernels
