// The front door: a module with entry points in, something an engine can run out.
#pragma once

#include <memory>
#include <string>

#include "executable/machine_form.h"
#include "ir/module.h"
#include "passes/host_limits.h"
#include "passes/pass.h"
#include "program/program.h"
#include "target/system.h"

namespace ipu::executable {

struct CompileOptions {
  std::string pipeline = "default";    // named pass pipeline
  int replicas = 1;                    // in this process
  int processes = 1;                   // of the job: the replicas of all of them meet in collectives
  ReplicaGrouping input_groups{1, 1};  // replicas of a group are fed the same inputs
  bool auto_round_num_ipus = false;    // else Error(kIpuCountNotPowerOfTwo)
  bool any_ipu_count = false;          // models and offline targets: no rounding
  int most_ipus = 64;                  // of this process
  bool is_dry = false;                 // up to the machine form: no passes of the host, no program
  passes::Verify verify = passes::Verify::kEnds;                     // where IPU_VERIFY does not say
  passes::HostLimits host = passes::HostLimits::from_environment();  // of this computer; Error(kEnvironment)
};

struct Executable {
  std::shared_ptr<const program::Program> program;
  std::string ir_text;  // as this host runs it: after all passes; "" of a dry run
  std::shared_ptr<const MachineForm>
      machine_form;  // as the machine runs it; nullptr where there is no program
  passes::Statistics statistics;
  int ipus_per_replica = 1;  // max(distinct IPUs used, highest id + 1)
  int ipus_reserved = 1;     // with replicas, rounded
  double compile_seconds = 0.0;
  int ipu_version = 0;  // of the machine it was compiled for; 0: no matter, it uses none
  bool from_cache = false;
  bool is_dry = false;  // there is a machine form and nothing to run

  // Throws Error(kFileVersion) if the executable was loaded from a file without it.
  const MachineForm& machine() const;
  const std::string& machine_text() const;  // of machine(); "" without a program
};

// Error(kIpuCountNotPowerOfTwo) when so many IPUs of each replica cannot be reserved.
void check_ipu_count(int per_replica, const CompileOptions& options);

// The text of a module that comes along with an executable: constants above 256 elements by hash.
std::string print_for_reading(const ir::Module& module);

// `module` is consumed by the passes.
Executable compile(ir::Module& module, const target::System& system, const CompileOptions& options);

}  // namespace ipu::executable
