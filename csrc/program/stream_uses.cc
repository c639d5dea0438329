#include "program/stream_uses.h"

#include <algorithm>
#include <map>

#include "support/interruption.h"

namespace ipu::program {
namespace {

struct Loop {
  int counter = -1;
  int64_t trip = 0;
  bool may_end_early = false;
};

// Instructions that not every iteration reaches: up to `end`, while the counter is in [low, high), or, as the
// other branch of an `if`, while it is not.
struct Guard {
  int end = 0;
  int counter = -1;  // -1: values decide
  int64_t low = 0, high = 0;
  bool is_otherwise = false;
};

// What one call of a subroutine moves, by stream.
using CallUses = std::map<int, StreamUse>;

class UseCounter {
 public:
  UseCounter(const IpuProgram& code, CodeRange range, const std::vector<CallUses>& calls, CallUses& uses)
      : code_(code), range_(range), calls_(calls), uses_(uses) {}

  void run() {
    find_early_ends();
    for (int at = range_.begin; at < range_.end; ++at) {
      poll_interruption();
      while (!guards_.empty() && guards_.back().end <= at) guards_.pop_back();
      const Instruction& step = code_.instructions[at];
      switch (step.opcode) {
        case Opcode::kLoop:
          loops_.push_back({step.counter, step.trip, ends_early_[at - range_.begin] != 0});
          break;
        case Opcode::kEndLoop:
          loops_.pop_back();
          break;
        case Opcode::kBranchUnlessCounter:
          guard({step.target, step.counter, step.low, step.high, false});
          break;
        case Opcode::kBranchIfNot:
          if (!leaves_loop(at)) guard({step.target, -1, 0, 0, false});
          break;
        case Opcode::kJump:
          jump(at, step.target);
          break;
        case Opcode::kStreamLoad:
        case Opcode::kStreamStore:
          count(uses_[step.object], {1, true});
          break;
        case Opcode::kCall:
          for (const auto& [stream, use] : calls_[static_cast<size_t>(step.object)])
            count(uses_[stream], use);
          break;
        default:
          break;
      }
    }
  }

 private:
  bool leaves_loop(int at) const {
    return around_[at - range_.begin] >= 0 &&
           code_.instructions[at].target > code_.instructions[around_[at - range_.begin]].target;
  }

  // Which loop is around each instruction, and which loops values may end.
  void find_early_ends() {
    std::vector<int> open;
    ends_early_.assign(range_.end - range_.begin, 0);
    for (int at = range_.begin; at < range_.end; ++at) {
      around_.push_back(open.empty() ? -1 : open.back());
      const Opcode opcode = code_.instructions[at].opcode;
      if (opcode == Opcode::kLoop) open.push_back(at);
      if (opcode == Opcode::kEndLoop) open.pop_back();
      if (opcode == Opcode::kBranchIfNot && leaves_loop(at)) ends_early_[open.back() - range_.begin] = 1;
    }
  }

  void guard(const Guard& guard) {
    const bool nests = guards_.empty() || guard.end <= guards_.back().end;
    if (nests)
      guards_.push_back(guard);
    else
      is_lost_ = true;
  }

  // The end of the first branch of an `if`: the other one follows.
  void jump(int at, int target) {
    if (guards_.empty() || guards_.back().end != at + 1 || guards_.back().is_otherwise) {
      is_lost_ = true;
      return;
    }
    Guard otherwise = guards_.back();
    guards_.pop_back();
    otherwise.end = target;
    otherwise.is_otherwise = true;
    guard(otherwise);
  }

  // How many iterations of `loop` pass the guards on its counter; a bound where it cannot be told.
  int64_t trips(const Loop& loop, bool& is_exact) const {
    int64_t low = 0, high = loop.trip;
    for (const Guard& guard : guards_) {
      if (guard.counter != loop.counter || guard.is_otherwise) continue;
      low = std::max(low, guard.low);
      high = std::min(high, guard.high);
    }
    int64_t left = std::max<int64_t>(high - low, 0), others = 0;
    for (const Guard& guard : guards_) {
      if (guard.counter != loop.counter || !guard.is_otherwise) continue;
      if (++others > 1) {
        is_exact = false;
        continue;
      }
      left -= std::max<int64_t>(std::min(high, guard.high) - std::max(low, guard.low), 0);
    }
    return std::max<int64_t>(left, 0);
  }

  // `each`: what the instruction moves whenever it runs.
  void count(StreamUse& use, const StreamUse& each) const {
    int64_t product = each.elements;
    bool is_exact = !is_lost_ && each.is_exact;
    for (const Loop& loop : loops_) {
      is_exact &= !loop.may_end_early;
      if (__builtin_mul_overflow(product, trips(loop, is_exact), &product)) product = INT64_MAX;
    }
    for (const Guard& guard : guards_) is_exact &= guard.counter >= 0;
    if (__builtin_add_overflow(use.elements, product, &use.elements)) use.elements = INT64_MAX;
    if (product > 0) use.is_exact &= is_exact;
  }

  const IpuProgram& code_;
  const CodeRange range_;
  const std::vector<CallUses>& calls_;
  CallUses& uses_;
  std::vector<int> around_;       // by instruction of the range: the loop around it
  std::vector<char> ends_early_;  // likewise: of loops
  std::vector<Loop> loops_;
  std::vector<Guard> guards_;
  bool is_lost_ = false;  // control that is no `if`: from here on counts are bounds
};

}  // namespace

std::vector<StreamUse> stream_uses(const Program& program, int entry) {
  std::vector<StreamUse> uses(program.streams.size());
  for (const IpuProgram& ipu : program.ipus) {
    std::vector<CallUses> calls;
    for (int s = 0; s < static_cast<int>(ipu.subroutines.size()); ++s) {
      CallUses of_call;
      UseCounter(ipu, code_of_subroutine(ipu, s), calls, of_call).run();
      calls.push_back(std::move(of_call));
    }
    CallUses of_entry;
    UseCounter(ipu, code_of(ipu, entry), calls, of_entry).run();
    for (const auto& [stream, use] : of_entry) {
      StreamUse& all = uses[static_cast<size_t>(stream)];
      if (__builtin_add_overflow(all.elements, use.elements, &all.elements)) all.elements = INT64_MAX;
      if (use.elements > 0) all.is_exact &= use.is_exact;
    }
  }
  return uses;
}

}  // namespace ipu::program
