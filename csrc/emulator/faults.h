// Faults on demand: what the real machine does once a month, here at a run, an IPU and a kind of step of your
// choice. Process-wide, off by default; while it is off the engine asks for it once a run. A fault that needs
// a reset leaves the system unusable until recover() is told that the reset was made (docs/faults.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace ipu::emulator {

struct FaultRule {
  enum class Kind : uint8_t {
    kReset,          // DeviceError with `action`
    kUnrecoverable,  // DeviceError without action: the system is out of service
    kSlowLink,       // every matching step takes `microseconds` longer
    kAllocation,     // memory of an IPU cannot be had when the program is loaded
    kCorrupt,        // an element of a host stream arrives damaged: DeviceError with LINK_RESET
    kError,          // the step throws something that is no Error
  };
  Kind kind = Kind::kReset;
  std::string action;          // IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET
  int64_t run = 0;             // runs are counted from 1 since the faults were set; 0: any run
  int ipu = -1, replica = -1;  // -1: any
  std::string step;            // kernel, load, store, push, pop, collective; "" any
  std::string stream;          // kCorrupt: "" any
  int64_t times = 1;           // how often it happens; 0: always
  int64_t microseconds = 0;
};

// "IPU_RESET@run=2,ipu=1,step=kernel; slow_link:500@ipu=0,step=push": rules separated by ';', each a kind,
// optionally what it needs after ':', and conditions after '@'. Error(kEnvironment) naming what is wrong.
std::vector<FaultRule> parse_faults(std::string_view text);

// Replaces the rules, restarts the count of runs, and makes the system whole again.
void set_faults(std::vector<FaultRule> rules);
// The rules of POPTORCH_FAULTS, read once per process, unless set_faults() came first.
void set_faults_from_environment();
bool faults_are_set();

// --- called by the engine and by whoever acquires IPUs ---
int64_t begin_faulty_run();  // number of the run that begins
// Throws, sleeps, or does nothing.
void fault_before_step(const program::Program& program, int ipu, int replica, int instruction, int64_t run);
void fault_before_allocation(int ipu);
// Throws the DeviceError that made the system unusable, while it is.
void require_usable_system();

// The reset was made: "IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET". A stronger reset covers the
// weaker ones. Error(kExecution) when it does not cover what is needed, or when models are still attached to
// IPUs that would be reset.
void recover(std::string_view action, int attached_ipus);

}  // namespace ipu::emulator
