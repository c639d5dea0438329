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

// What a piece of code moves.
struct Moves {
  std::map<int, StreamUse> streams;
  Traffic memory;
};

void add(int64_t& sum, int64_t n) {
  if (__builtin_add_overflow(sum, n, &sum)) sum = INT64_MAX;
}

int64_t product_of(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

class UseCounter {
 public:
  UseCounter(const IpuProgram& code, CodeRange range, const std::vector<Moves>& calls, Moves& moves)
      : code_(code), range_(range), calls_(calls), moves_(moves) {}

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
        case Opcode::kRemoteLoad:
        case Opcode::kRemoteStore:
        case Opcode::kCollective:
          note(step);
          break;
        case Opcode::kCall:
          note(calls_[static_cast<size_t>(step.object)]);
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

  void note(const Instruction& step) {
    Moves once;
    if (step.opcode == Opcode::kStreamLoad || step.opcode == Opcode::kStreamStore)
      once.streams[step.object] = {1, true};
    if (step.opcode == Opcode::kRemoteLoad)
      once.memory.remote_loaded = step.results.front().spec.stored_bytes();
    if (step.opcode == Opcode::kRemoteStore)
      once.memory.remote_stored = step.operands.front().spec.stored_bytes();
    if (step.opcode == Opcode::kCollective && step.kernel == "all_gather")
      once.memory.gathered = step.results.front().spec.stored_bytes();
    note(once);
  }

  // What the instruction at hand moves whenever it runs.
  void note(const Moves& each) {
    bool is_exact = true;
    const int64_t times = count(is_exact);
    for (const auto& [stream, use] : each.streams) {
      StreamUse& sum = moves_.streams.try_emplace(stream, StreamUse{0, true}).first->second;
      const int64_t elements = product_of(times, use.elements);
      add(sum.elements, elements);
      if (elements > 0) sum.is_exact &= is_exact && use.is_exact;
    }
    const Traffic& memory = each.memory;
    const bool moves_memory = memory.remote_loaded > 0 || memory.remote_stored > 0 || memory.gathered > 0;
    if (!moves_memory || times == 0) return;
    add(moves_.memory.remote_loaded, product_of(times, memory.remote_loaded));
    add(moves_.memory.remote_stored, product_of(times, memory.remote_stored));
    add(moves_.memory.gathered, product_of(times, memory.gathered));
    moves_.memory.is_exact &= is_exact && memory.is_exact;
  }

  // How often the instruction at hand runs.
  int64_t count(bool& is_exact) const {
    int64_t product = 1;
    is_exact = !is_lost_;
    for (const Loop& loop : loops_) {
      is_exact &= !loop.may_end_early;
      if (__builtin_mul_overflow(product, trips(loop, is_exact), &product)) product = INT64_MAX;
    }
    for (const Guard& guard : guards_) is_exact &= guard.counter >= 0;
    return product;
  }

  const IpuProgram& code_;
  const CodeRange range_;
  const std::vector<Moves>& calls_;  // by subroutine
  Moves& moves_;
  std::vector<int> around_;       // by instruction of the range: the loop around it
  std::vector<char> ends_early_;  // likewise: of loops
  std::vector<Loop> loops_;
  std::vector<Guard> guards_;
  bool is_lost_ = false;  // control that is no `if`: from here on counts are bounds
};

Moves moves_of(const IpuProgram& ipu, int entry) {
  std::vector<Moves> calls;
  for (int s = 0; s < static_cast<int>(ipu.subroutines.size()); ++s) {
    Moves of_call;
    UseCounter(ipu, code_of_subroutine(ipu, s), calls, of_call).run();
    calls.push_back(std::move(of_call));
  }
  Moves moves;
  UseCounter(ipu, code_of(ipu, entry), calls, moves).run();
  return moves;
}

}  // namespace

std::vector<StreamUse> stream_uses(const Program& program, int entry) {
  std::vector<StreamUse> uses(program.streams.size());
  for (const IpuProgram& ipu : program.ipus)
    for (const auto& [stream, use] : moves_of(ipu, entry).streams) {
      StreamUse& all = uses[static_cast<size_t>(stream)];
      add(all.elements, use.elements);
      all.is_exact &= use.is_exact;
    }
  return uses;
}

Traffic traffic(const Program& program, int entry) {
  Traffic sum;
  for (const IpuProgram& ipu : program.ipus) {
    const Traffic moved = moves_of(ipu, entry).memory;
    add(sum.remote_loaded, moved.remote_loaded);
    add(sum.remote_stored, moved.remote_stored);
    add(sum.gathered, moved.gathered);
    sum.is_exact &= moved.is_exact;
  }
  return sum;
}

}  // namespace ipu::program
