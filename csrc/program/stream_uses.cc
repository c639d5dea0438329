#include "program/stream_uses.h"

#include <algorithm>

#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {
namespace {

// Counting looks at all loops and branches around an instruction. Lowering nests at most 100 graphs.
constexpr size_t kMostNested = 128;

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

class UseCounter {
 public:
  UseCounter(const IpuProgram& code, CodeRange range) : code_(code), range_(range) {}

  // `visit(instruction, times it runs, whether that is exact)` for each that is no control.
  template <typename Visit>
  void run(Visit visit) {
    find_early_ends();
    for (int at = range_.begin; at < range_.end; ++at) {
      poll_interruption();
      while (!guards_.empty() && guards_.back().end <= at) guards_.pop_back();
      const Instruction& step = code_.instructions[at];
      switch (step.opcode) {
        case Opcode::kLoop:
          loops_.push_back({step.counter, step.trip, ends_early_[at - range_.begin] != 0});
          require_shallow();
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
        case Opcode::kCall: {
          bool is_exact = true;
          const int64_t times = count(is_exact);
          visit(step, times, is_exact);
          break;
        }
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
    if (!nests) {
      is_lost_ = true;
      return;
    }
    guards_.push_back(guard);
    require_shallow();
  }

  void require_shallow() const {
    if (loops_.size() + guards_.size() > kMostNested)
      throw Error(ErrorCode::kInvalidProgram, "invalid program: more than " + std::to_string(kMostNested) +
                                                  " loops and branches stand in each other");
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
  std::vector<int> around_;       // by instruction of the range: the loop around it
  std::vector<char> ends_early_;  // likewise: of loops
  std::vector<Loop> loops_;
  std::vector<Guard> guards_;
  bool is_lost_ = false;  // control that is no `if`: from here on counts are bounds
};

void add(int64_t& sum, int64_t n) {
  if (__builtin_add_overflow(sum, n, &sum)) sum = INT64_MAX;
}

// `visit(instruction, times it runs, whether that is exact)` for what an entry point and what it calls move.
template <typename Visit>
void for_each_use(const IpuProgram& ipu, int entry, Visit visit) {
  struct Runs {
    int64_t times = 0;
    bool is_exact = true;
  };
  std::vector<Runs> calls(ipu.subroutines.size());
  auto count_in = [&](CodeRange range, const Runs& runs) {
    UseCounter(ipu, range).run([&](const Instruction& step, int64_t times, bool is_exact) {
      if (__builtin_mul_overflow(times, runs.times, &times)) times = INT64_MAX;
      is_exact = is_exact && runs.is_exact;
      if (step.opcode != Opcode::kCall) return visit(step, times, is_exact);
      Runs& called = calls[static_cast<size_t>(step.object)];
      add(called.times, times);
      if (times > 0) called.is_exact &= is_exact;
    });
  };
  count_in(code_of(ipu, entry), {1, true});
  for (size_t s = calls.size(); s-- > 0;)  // who calls it comes later in the list
    if (calls[s].times > 0) count_in(code_of_subroutine(ipu, static_cast<int>(s)), calls[s]);
}

}  // namespace

std::vector<StreamUse> stream_uses(const Program& program, int entry) {
  std::vector<StreamUse> uses(program.streams.size());
  for (const IpuProgram& ipu : program.ipus)
    for_each_use(ipu, entry, [&](const Instruction& step, int64_t times, bool is_exact) {
      if (step.opcode != Opcode::kStreamLoad && step.opcode != Opcode::kStreamStore) return;
      StreamUse& use = uses[static_cast<size_t>(step.object)];
      add(use.elements, times);
      if (times > 0) use.is_exact &= is_exact;
    });
  return uses;
}

Traffic traffic(const Program& program, int entry) {
  Traffic sum;
  for (const IpuProgram& ipu : program.ipus)
    for_each_use(ipu, entry, [&](const Instruction& step, int64_t times, bool is_exact) {
      int64_t* moved = nullptr;
      if (step.opcode == Opcode::kRemoteLoad) moved = &sum.remote_loaded;
      if (step.opcode == Opcode::kRemoteStore) moved = &sum.remote_stored;
      if (step.opcode == Opcode::kCollective && step.kernel == "all_gather") moved = &sum.gathered;
      if (moved == nullptr) return;
      const TensorSpec& spec =
          step.opcode == Opcode::kRemoteStore ? step.operands.front().spec : step.results.front().spec;
      int64_t bytes = 0;
      if (__builtin_mul_overflow(spec.stored_bytes(), times, &bytes)) bytes = INT64_MAX;
      add(*moved, bytes);
      if (times > 0) sum.is_exact &= is_exact;
    });
  return sum;
}

}  // namespace ipu::program
