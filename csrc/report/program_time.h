// How long a run of a program takes on the machine, from its machine form: the ops in the order of their list, each IPU with a clock
// of its own. IPUs wait for each other where one reads what another one gave, and where an iteration of a loop ends.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "report/op_time.h"

namespace ipu::report {

struct IpuTime {
  int ipu = 0;  // within the replica
  Cycles cycles;
  double waiting =
      0;  // for other IPUs, and for transfers of I/O tiles that take longer than what they overlap with
  Cycles beside;  // of those transfers
};

// Executions of ops that something is the same of: their kind, their line or their module.
struct TimeOf {
  std::string what;
  double executions = 0;
  Cycles cycles;
};

struct ProgramTime {
  double cycles = 0;  // of a run of the entry point, until the last IPU is done
  double seconds = 0;
  bool is_maximum = false;  // a loop ends when a value says so: its declared bound is counted
  std::vector<IpuTime> ipus;
  std::vector<TimeOf> kinds, lines, modules;  // most cycles first, then by name
  std::vector<TimeOf> guesses;                // kinds whose definitions say nothing of their work
  double operations = 0;                      // floating-point ones of products, of one replica
};

// `module`: a machine form, which runs as so many replicas. Error(kInvalidProgram) if it has no such entry point.
ProgramTime program_time(const ir::Module& module, const std::string& entry, const target::Machine& machine,
                         int64_t replicas);

}  // namespace ipu::report
