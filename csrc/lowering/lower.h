// Functional IR → machine-level program: project each graph onto its IPUs, order, choose kernels, plan
// memory.
#pragma once

#include "ir/module.h"
#include "program/program.h"
#include "target/system.h"

namespace ipu::lowering {

struct LowerOptions {
  int replicas = 1;   // in each process
  int processes = 1;  // of the job
  ReplicaGrouping input_groups{1, 1};
};

// Their order in a program: "main" first, the others by name.
std::vector<std::string> entry_points_of(const ir::Module& module);

// All entry points of the module. Expects: functional form, calls of graphs that are no subroutines inlined or few,
// every op placed (settings.ipu), crossings explicit as ipu_copy, and io_tile_copy at overlapped transfers. The
// result passed check_program, check_plan (per IPU) and check_deadlock.
program::Program lower(const ir::Module& module, const LowerOptions& options);

}  // namespace ipu::lowering
