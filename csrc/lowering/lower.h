// Functional IR → machine-level program: project each graph onto its IPUs, order, choose kernels, plan
// memory.
#pragma once

#include "ir/module.h"
#include "program/program.h"
#include "target/system.h"

namespace ipu::lowering {

struct LowerOptions {
  std::string entry_point = "main";
  int replicas = 1;
  ReplicaGrouping input_groups{1, 1};
  int64_t device_iterations = 1, accumulation = 1;
};

// Expects: functional form, calls inlined, every op placed (settings.ipu), crossings explicit as ipu_copy.
// The result passed check_program, check_plan (per IPU) and check_deadlock.
program::Program lower(const ir::Module& module, const LowerOptions& options);

}  // namespace ipu::lowering
