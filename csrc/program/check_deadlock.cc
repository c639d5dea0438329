// Runs control and rings of each entry point of a program without data, all IPUs in turn, until all end or all wait.
// Rings are first-in first-out with one writer and one reader, so whether the program ends does not depend
// on the order in which IPUs run: one order proves all. Instructions that neither move control nor touch a
// ring are dropped first, and so are loops and calls without rings in them.
#include <fmt/core.h>

#include <algorithm>

#include "program/program.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {
namespace {

struct Step {
  Opcode opcode;
  int object = -1, counter = -1, target = -1;
  int64_t trip = 0, low = 0, high = 0;
  int original = 0;
};

struct Track {
  std::vector<Step> steps;  // of the entry point, then of the subroutines
  int end = 0;              // of the entry point
  std::vector<int64_t> counters;
  std::vector<int> returns;
  int at = 0;

  bool is_done() const { return at == end && returns.empty(); }
};

bool is_ring_step(Opcode code) {
  return code == Opcode::kPush || code == Opcode::kPop || code == Opcode::kRelease;
}

// By subroutine: it, or one it calls, moves rings.
std::vector<char> find_ring_users(const IpuProgram& program) {
  std::vector<char> users;
  for (int s = 0; s < static_cast<int>(program.subroutines.size()); ++s) {
    const CodeRange range = code_of_subroutine(program, s);
    bool uses = false;
    for (int i = range.begin; i < range.end; ++i) {
      const Instruction& step = program.instructions[i];
      uses |= is_ring_step(step.opcode) || (step.opcode == Opcode::kCall && users[step.object] != 0);
    }
    users.push_back(uses);
  }
  return users;
}

// Appends only what can block or decide; targets renumbered. A loop or call without ring steps inside is left out.
void reduce(const IpuProgram& program, CodeRange range, const std::vector<char>& ring_users, Track& track) {
  const std::vector<Instruction>& all = program.instructions;
  const int begin = range.begin, n = range.end - range.begin;  // targets below count from `begin`
  std::vector<int> queue_steps(n + 1, 0);                      // before instruction i
  for (int i = 0; i < n; ++i) {
    const Instruction& step = all[begin + i];
    const bool calls = step.opcode == Opcode::kCall && ring_users[step.object] != 0;
    queue_steps[i + 1] = queue_steps[i] + (is_ring_step(step.opcode) || calls);
  }
  const size_t first = track.steps.size();
  std::vector<int> position(n + 1, 0);
  for (int i = 0; i < n; ++i) {
    position[i] = static_cast<int>(track.steps.size());
    const Instruction& step = all[begin + i];
    const int target = step.target - begin;
    int low = std::min(i, target), high = std::max(i, target);
    bool matters = false;
    switch (step.opcode) {
      case Opcode::kPush:
      case Opcode::kPop:
      case Opcode::kRelease:
      case Opcode::kJump:
      case Opcode::kReturn:
        matters = true;
        break;
      case Opcode::kCall:
        matters = ring_users[step.object] != 0;
        break;
      case Opcode::kLoop:
      case Opcode::kEndLoop:
        matters = queue_steps[high] > queue_steps[low];
        break;
      case Opcode::kBranchIfNot:
      case Opcode::kBranchUnlessCounter:
        matters = true;
        break;
      default:
        break;
    }
    if (matters)
      track.steps.push_back(
          {step.opcode, step.object, step.counter, target, step.trip, step.low, step.high, begin + i});
  }
  position[n] = static_cast<int>(track.steps.size());
  for (size_t s = first; s < track.steps.size(); ++s)
    if (Step& step = track.steps[s]; step.target >= 0) step.target = position[step.target];
}

Track reduce(const IpuProgram& program, int entry) {
  Track track;
  track.counters.assign(program.counters, 0);
  const std::vector<char> ring_users = find_ring_users(program);
  reduce(program, code_of(program, entry), ring_users, track);
  track.end = static_cast<int>(track.steps.size());
  std::vector<int> begins;
  for (int s = 0; s < static_cast<int>(ring_users.size()); ++s) {
    begins.push_back(static_cast<int>(track.steps.size()));
    if (ring_users[s] != 0) reduce(program, code_of_subroutine(program, s), ring_users, track);
  }
  for (Step& step : track.steps)
    if (step.opcode == Opcode::kCall) step.target = begins[step.object];
  return track;
}

struct RingState {
  int64_t filled = 0, taken = 0;  // taken: popped in place, slot not yet released
};

class Simulation {
 public:
  Simulation(const Program& program, int entry, bool take_unknown)
      : program_(program), take_unknown_(take_unknown) {
    for (const IpuProgram& ipu : program.ipus) tracks_.push_back(reduce(ipu, entry));
    rings_.resize(program.rings.size());
    int64_t rounds = 4;
    for (const Ring& ring : program.rings) rounds = std::max(rounds, 2 * ring.capacity + 2);
    shorten(rounds);
    for (Track& track : tracks_) shorten_open_loops(track, rounds);
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < tracks_.size(); ++i) moved |= advance(static_cast<int>(i));
    }
    bool all_done = std::all_of(tracks_.begin(), tracks_.end(), [](const Track& t) { return t.is_done(); });
    if (!all_done) report();
    for (size_t q = 0; q < rings_.size(); ++q)
      if (rings_[q].filled != 0)
        throw Error(ErrorCode::kDeadlock,
                    fmt::format("deadlock: ring {} still holds {} elements when the program ends; "
                                "the next call could not start",
                                program_.rings[q].name, rings_[q].filled));
  }

 private:
  // The body of an outermost loop that all IPUs share and whose counter no branch reads repeats itself
  // exactly: any surplus of pushes over pops shows within as many rounds as the largest ring has slots.
  void shorten(int64_t rounds) {
    int64_t trip = -1;
    for (const Track& track : tracks_) {
      if (track.end == 0) continue;
      const Step& first = track.steps.front();
      if (first.opcode != Opcode::kLoop || first.target != track.end - 1) return;
      if (trip >= 0 && trip != first.trip) return;
      trip = first.trip;
      for (const Step& step : track.steps)
        if (step.opcode == Opcode::kBranchUnlessCounter && step.counter == first.counter) return;
    }
    for (Track& track : tracks_)
      if (track.end > 0) track.steps.front().trip = std::min(trip, rounds);
  }

  // A loop that ends when values say so: its trip is a bound, and all IPUs leave it in the same round, whichever that is.
  static void shorten_open_loops(Track& track, int64_t rounds) {
    for (Step& loop : track.steps) {
      if (loop.opcode != Opcode::kLoop || loop.trip <= rounds) continue;
      const auto begin = static_cast<int>(&loop - track.steps.data());
      for (int i = begin + 1; i < loop.target; ++i)
        if (track.steps[i].opcode == Opcode::kBranchIfNot && track.steps[i].target > loop.target)
          loop.trip = rounds;
    }
  }

  bool advance(int ipu) {
    Track& track = tracks_[ipu];
    bool moved = false;
    while (!track.is_done()) {
      poll_interruption();
      const Step& step = track.steps[track.at];
      int next = track.at + 1;
      switch (step.opcode) {
        case Opcode::kLoop:
          track.counters[step.counter] = 0;
          if (step.trip == 0) next = step.target + 1;
          break;
        case Opcode::kEndLoop:
          if (++track.counters[step.counter] < track.steps[step.target].trip) next = step.target + 1;
          break;
        case Opcode::kBranchIfNot:
          if (take_unknown_) next = step.target;
          break;
        case Opcode::kBranchUnlessCounter: {
          int64_t counter = track.counters[step.counter];
          if (counter < step.low || counter >= step.high) next = step.target;
          break;
        }
        case Opcode::kJump:
          next = step.target;
          break;
        case Opcode::kCall:
          track.returns.push_back(next);
          next = step.target;
          break;
        case Opcode::kReturn:
          next = track.returns.back();
          track.returns.pop_back();
          break;
        case Opcode::kPush: {
          RingState& ring = rings_[step.object];
          if (ring.filled == program_.rings[step.object].capacity) return moved;
          ++ring.filled;
          break;
        }
        case Opcode::kPop: {
          RingState& ring = rings_[step.object];
          if (ring.filled - ring.taken <= 0) return moved;
          if (in_place(ipu, step)) {
            ++ring.taken;
          } else {
            --ring.filled;
          }
          break;
        }
        case Opcode::kRelease: {
          RingState& ring = rings_[step.object];
          if (ring.taken == 0)
            throw Error(
                ErrorCode::kInvalidProgram,
                fmt::format("invalid program: {}: no slot of ring {} is taken",
                            describe(program_, ipu, step.original), program_.rings[step.object].name));
          --ring.taken;
          --ring.filled;
          break;
        }
        default:
          break;
      }
      track.at = next;
      moved = true;
    }
    return moved;
  }

  bool in_place(int ipu, const Step& step) const {
    const Instruction& pop = program_.ipus[ipu].instructions[step.original];
    return program_.ipus[ipu].buffers[pop.results[0].buffer].storage == Storage::kExternal;
  }

  [[noreturn]] void report() const {
    std::string text = "deadlock: no IPU can go on";
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const Track& track = tracks_[i];
      if (track.is_done()) {
        text += fmt::format("\n  {} has ended", processor_name(program_, static_cast<int>(i)));
        continue;
      }
      const Step& step = track.steps[track.at];
      const Ring& ring = program_.rings[step.object];
      bool full = step.opcode == Opcode::kPush;
      text += fmt::format("\n  {} waits for {}: ring {} is {}",
                          describe(program_, static_cast<int>(i), step.original),
                          processor_name(program_, full ? ring.to_ipu : ring.from_ipu), ring.name,
                          full ? fmt::format("full with {} elements", ring.capacity) : "empty");
    }
    throw Error(ErrorCode::kDeadlock, text);
  }

  const Program& program_;
  const bool take_unknown_;
  std::vector<Track> tracks_;
  std::vector<RingState> rings_;
};

}  // namespace

void check_deadlock(const Program& program) {
  bool unknown = false;
  for (const IpuProgram& ipu : program.ipus)
    for (const Instruction& step : ipu.instructions) unknown |= step.opcode == Opcode::kBranchIfNot;
  for (int entry = 0; entry < static_cast<int>(program.entry_points.size()); ++entry) {
    Simulation(program, entry, false).run();
    if (unknown) Simulation(program, entry, true).run();
  }
}

}  // namespace ipu::program
