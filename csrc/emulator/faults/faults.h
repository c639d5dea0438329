// Faults on demand: what the real machine does once a month, here at a run, an IPU and a kind of step of your
// choice. Process-wide, off by default; while it is off the engine asks for it once a run. A fault that needs
// a reset leaves the system unusable until recover() is told that the reset was made (docs/faults.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/faults/fault_rules.h"
#include "program/program.h"

namespace ipu::emulator {

// Adds rules to those there are, with a count of runs of their own; those of POPTORCH_FAULTS are there first.
// Returns a number for remove_faults(), which takes these rules away and makes the system what it was before.
int64_t add_faults(std::vector<FaultRule> rules);
void remove_faults(int64_t number);
// The rules of POPTORCH_FAULTS, read once per process. Error(kEnvironment) when they are not understood.
void add_faults_of_environment();
bool faults_are_set();

// --- called by the engine and by whoever acquires IPUs
int64_t begin_faulty_run();  // number of the run that begins
// Throws, sleeps, or does nothing.
void fault_before_step(const program::Program& program, int ipu, int replica, int instruction, int64_t run);
// An element crosses the link between host and device: a copy of `data` is sent, damaged where a rule says
// so, and compared by checksum with what was meant. Throws the DeviceError of a damaged element.
void fault_in_transfer(const program::Program& program, int ipu, int replica, int instruction, int64_t run,
                       std::span<const std::byte> data);
void fault_before_allocation(int ipu);
// Throws the DeviceError that made the system unusable, while it is.
void require_usable_system();

// The reset was made: "IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET". A stronger reset covers the
// weaker ones. Error(kExecution) when it does not cover what is needed, or when models are still attached to
// IPUs that would be reset.
void recover(std::string_view action, int attached_ipus);

}  // namespace ipu::emulator
