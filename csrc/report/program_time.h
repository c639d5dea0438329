// How long a run of a program takes on the machine, from its machine form: the ops in the order of their list, each IPU with a clock
// of its own. IPUs wait for each other where one reads what another one gave, and where an iteration of a loop ends.
#pragma once

#include <optional>
#include <string>
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

// The executions of one op of the list in a run. A copy between IPUs takes both of them, its sender besides.
struct TimedOp {
  const ir::Op* op = nullptr;
  int ipu = 0;
  std::optional<int> sender = std::nullopt;
  bool is_beside = false;  // a transfer of I/O tiles, while the others do something else
  double executions = 0;
  OpTime once = {};
  Cycles cycles() const { return once.cycles * (executions * (sender ? 2 : 1)); }  // of all IPUs
};

// Executions of ops that something is the same of: their kind, their line or their module. Cycles are those of all IPUs together.
struct TimeOf {
  std::string what;
  double executions = 0;
  Cycles cycles;
  std::string figure = {};  // what takes most of it, as OpTime
};

// A graph as it runs under certain conditions, from the begin of an execution.
struct ScheduledGraph {
  // Another one that runs inside of it, so many times one after the other.
  struct Part {
    size_t graph;  // before this one in the list
    double begin, times;
  };
  const ir::Graph* graph;
  std::vector<double> ends;      // of each IPU
  std::vector<char> takes_part;  // of each IPU
  std::vector<Part> parts;
  double end() const;
};

// Cycles are whole numbers: sums of parts are totals to the cycle.
struct ProgramTime {
  double cycles = 0;  // of a run of the entry point, until the last IPU is done
  double seconds = 0;
  // The longest run. More than `cycles` where a value ends loops of which fewer iterations are expected than their declared bounds.
  double maximum_cycles = 0;
  // A value decides how long a run takes, and this is the longest one: of a loop the declared bound is counted, of an `if` the longer branch.
  bool is_maximum = false;
  std::vector<IpuTime> ipus;
  std::vector<TimedOp> ops;  // that take time; they are those of the module
  std::vector<TimeOf> kinds, lines,
      modules;  // most cycles first, then by name; they add up to the cycles of the IPUs, those beside with them
  std::vector<TimeOf> guesses;           // kinds whose definitions say nothing of their work
  std::vector<ScheduledGraph> schedule;  // the last one is the entry point
  double operations = 0;                 // floating-point ones of products, of one replica
};

// `module`: a machine form, which runs as so many replicas. Error(kInvalidProgram) if it has no such entry point.
ProgramTime program_time(const ir::Module& module, const std::string& entry, const target::Machine& machine,
                         int64_t replicas);

}  // namespace ipu::report
