// Where replicas meet: one kernel over the operands and results of all members of a group, run by whoever of
// them comes last, with the lanes of his step. Groups that span processes meet in each of them; the operands
// of the others come through EngineOptions::exchange, which worker 0 calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/kernel_table.h"

namespace ipu::emulator {

struct Actor;

// Replicas of this process that wait for each other at one instruction.
struct Meeting {
  std::mutex mutex;
  std::vector<Actor*> waiting;
  size_t arrived = 0;
  std::vector<std::byte*> operands, results;  // by place
};

// All meetings of one instruction.
struct Collective {
  struct Place {
    int meeting = 0, at = 0;
  };
  // Members of a group in their order, as places of its meeting; -1: a replica of another process.
  struct Group {
    std::vector<int64_t> replicas;  // numbers in the job
    std::vector<int> places;
  };

  const kernels::PreparedKernel* kernel = nullptr;
  bool spans_processes = false;  // then there is one meeting, of all replicas of this process
  int64_t operand_bytes = 0;
  std::vector<Place> places;  // of each replica of this process
  std::vector<Group> groups;  // those with a replica of this process
  std::unique_ptr<Meeting[]> meetings;
  size_t meeting_count = 0;
};

}  // namespace ipu::emulator
