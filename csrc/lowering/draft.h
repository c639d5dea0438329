// An IPU's program before memory is planned: the instructions of program.h over virtual buffers. Each virtual
// buffer is written in one place, except the ones that carry values around loops and out of branches.
#pragma once

#include <string>
#include <vector>

#include "lowering/views.h"
#include "program/program.h"

namespace ipu::lowering {

struct VirtualBuffer {
  std::string name;
  int64_t bytes = 0;
  program::Storage storage = program::Storage::kArena;
  int index = -1;        // of the variable or constant; of a parameter: its input, or behind those its output
  bool written = false;  // variables: has steps that assign it; parameters: is an output
  bool is_remote = false;  // a variable that steps on its remote buffer see too: takes in no other value
};

struct DraftOperand : View {
  // The step has read this operand before it writes the same elements of its results, so a result may take
  // its memory.
  bool in_place = false;
};

struct DraftStep {
  program::Opcode opcode = program::Opcode::kKernel;
  std::string kernel;
  Attributes attributes;
  std::vector<DraftOperand> operands;
  std::vector<View> results;
  int object = -1, counter = -1, target = -1, origin = -1;
  int64_t trip = 0, low = 0, high = 0;
  bool is_move = false;  // copies operand 0 whole to result 0: goes when both become one buffer
  int depth = 0;         // of the loops around it
};

struct Draft {
  std::vector<VirtualBuffer> buffers;
  std::vector<DraftStep> steps;
  int counters = 0;
};

// Where values live: sorted, disjoint, half-open ranges of positions. Step i reads at position 2i and writes
// at 2i+1.
struct LiveRange {
  struct Segment {
    int64_t begin, end;
  };
  std::vector<Segment> segments;

  bool overlaps(const LiveRange& other) const;
  void join(const LiveRange& other);
};

// Elements of output streams that a step makes whole, and that nothing else writes, are made where the host wants
// them: kStreamPlace stands before that step, and the store has nothing to move.
void compute_in_place(Draft& draft, const std::vector<program::Stream>& streams);

// One range per virtual buffer. Written variables live into the first and out of the last step; outputs of a
// subroutine out of the last.
std::vector<LiveRange> live_ranges(const Draft& draft);

// Which virtual buffers share memory: a representative for each. Joins both ends of moves, then results with
// operands that may be overwritten in place, wherever ranges do not overlap. `ranges` are joined with them.
std::vector<int> coalesce(const Draft& draft, std::vector<LiveRange>& ranges);

// Joined buffers get one memory; moves within one go; arena offsets are planned.
program::IpuProgram place_buffers(const Draft& draft, const std::vector<int>& representative,
                                  const std::vector<LiveRange>& ranges);

}  // namespace ipu::lowering
