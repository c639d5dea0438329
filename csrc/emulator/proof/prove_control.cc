#include "emulator/proof/prove_control.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "emulator/host_stream.h"
#include "support/error.h"

namespace ipu::emulator {
namespace {

using program::Instruction;
using program::IpuProgram;
using program::Opcode;
using program::Program;
using program::Storage;

bool is_branch(Opcode opcode) {
  return opcode == Opcode::kBranchIfNot || opcode == Opcode::kBranchUnlessCounter || opcode == Opcode::kJump;
}

using Bits = std::vector<uint64_t>;

void intersect(Bits& into, const Bits& with) {
  for (size_t w = 0; w < into.size(); ++w) into[w] &= with[w];
}

// How often an instruction runs: the trips of the loops around it, cut to the ranges its guards let through.
class TripCounter {
 public:
  explicit TripCounter(const IpuProgram& code) : code_(code) {}

  // False when the count is not known before running: branches on data, or ranges that do not nest.
  template <class Visit>
  bool for_each(Visit visit) {
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      const Instruction& step = code_.instructions[i];
      while (!guards_.empty() && guards_.back().end <= i) guards_.pop_back();
      switch (step.opcode) {
        case Opcode::kLoop:
          loops_.push_back({step.counter, step.trip});
          break;
        case Opcode::kEndLoop:
          loops_.pop_back();
          break;
        case Opcode::kBranchUnlessCounter:
          if (!guards_.empty() && static_cast<size_t>(step.target) > guards_.back().end) return false;
          guards_.push_back({static_cast<size_t>(step.target), step.counter, step.low, step.high});
          break;
        case Opcode::kBranchIfNot:
        case Opcode::kJump:
          return false;
        default:
          visit(static_cast<int>(i), step, trips());
      }
    }
    return true;
  }

 private:
  struct Loop {
    int counter;
    int64_t trip;
  };
  struct Guard {
    size_t end;
    int counter;
    int64_t low, high;
  };

  int64_t trips() const {
    int64_t product = 1;
    for (const Loop& loop : loops_) {
      int64_t low = 0, high = loop.trip;
      for (const Guard& guard : guards_) {
        if (guard.counter != loop.counter) continue;
        low = std::max(low, guard.low);
        high = std::min(high, guard.high);
      }
      if (low >= high) return 0;
      if (__builtin_mul_overflow(product, high - low, &product)) product = INT64_MAX;
    }
    return product;
  }

  const IpuProgram& code_;
  std::vector<Loop> loops_;
  std::vector<Guard> guards_;
};

}  // namespace

// Definitions are never undone, branches go forward, and the way back of a loop carries more definitions than
// the way in. So one walk in the order of the instructions sees every way to each of them.
std::optional<UndefinedExternal> find_undefined_external(const IpuProgram& code) {
  std::vector<int> bit(code.buffers.size(), -1);
  int externals = 0;
  for (size_t b = 0; b < code.buffers.size(); ++b)
    if (code.buffers[b].storage == Storage::kExternal) bit[b] = externals++;
  if (externals == 0) return std::nullopt;
  Bits defined(static_cast<size_t>(externals + 63) / 64, 0);
  const Bits everything(defined.size(), ~uint64_t{0});
  std::map<int, Bits> arriving;  // by target: what all branches to it have defined
  auto branch_to = [&](int target) {
    auto [at, is_new] = arriving.try_emplace(target, defined);
    if (!is_new) intersect(at->second, defined);
  };
  auto merge = [&](size_t i) {
    auto at = arriving.find(static_cast<int>(i));
    if (at == arriving.end()) return;
    intersect(defined, at->second);
    arriving.erase(at);
  };
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    merge(i);
    const Instruction& step = code.instructions[i];
    for (const program::Operand& operand : step.operands) {
      if (operand.buffer < 0 || bit[operand.buffer] < 0) continue;
      const int b = bit[operand.buffer];
      if ((defined[b / 64] >> (b % 64) & 1) == 0)
        return UndefinedExternal{static_cast<int>(i), operand.buffer};
    }
    for (const program::Operand& result : step.results)
      if (const int b = bit[result.buffer]; b >= 0) defined[b / 64] |= uint64_t{1} << (b % 64);
    if (is_branch(step.opcode)) branch_to(step.target);
    if (step.opcode == Opcode::kLoop && step.trip == 0) branch_to(step.target + 1);
    if (step.opcode == Opcode::kJump || (step.opcode == Opcode::kLoop && step.trip == 0))
      defined = everything;  // nobody comes this way
  }
  return std::nullopt;
}

void prove_stream_counts(const Program& program) {
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    std::vector<int64_t> used(program.streams.size(), 0);
    std::vector<int> last(program.streams.size(), -1);
    const bool is_known =
        TripCounter(program.ipus[i]).for_each([&](int at, const Instruction& step, int64_t trips) {
          if (step.opcode != Opcode::kStreamLoad && step.opcode != Opcode::kStreamStore) return;
          int64_t& count = used[step.object];
          if (__builtin_add_overflow(count, trips, &count)) count = INT64_MAX;
          last[step.object] = at;
        });
    if (!is_known) continue;
    for (size_t s = 0; s < used.size(); ++s) {
      const int64_t limit = HostStream::elements_per_replica(program.streams[s], program);
      if (used[s] <= limit) continue;
      throw Error(ErrorCode::kInvalidProgram,
                  fmt::format("invalid program: {}: stream {} is used {} times in a run and has {} elements",
                              program::describe(program, static_cast<int>(i), last[s]),
                              program.streams[s].name, used[s], limit));
    }
  }
}

}  // namespace ipu::emulator
