// Joins virtual buffers that can share memory (Chaitin's aggressive coalescing, with ranges instead of a
// graph).
#include <algorithm>
#include <numeric>

#include "lowering/draft.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

using program::Storage;

class Coalescer {
 public:
  Coalescer(const Draft& draft, std::vector<LiveRange>& ranges) : draft_(draft), ranges_(ranges) {
    parent_.resize(draft.buffers.size());
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::vector<int> run() {
    std::vector<int> moves;
    for (size_t i = 0; i < draft_.steps.size(); ++i)
      if (draft_.steps[i].is_move) moves.push_back(static_cast<int>(i));
    // The moves that cost most first: deep in loops, then large.
    std::stable_sort(moves.begin(), moves.end(), [&](int a, int b) {
      const DraftStep &x = draft_.steps[a], &y = draft_.steps[b];
      if (x.depth != y.depth) return x.depth > y.depth;
      return draft_.buffers[x.results[0].buffer].bytes > draft_.buffers[y.results[0].buffer].bytes;
    });
    for (int i : moves) {
      poll_interruption();
      const DraftStep& move = draft_.steps[i];
      if (move.operands[0].in_place) try_join(move.results[0].buffer, move.operands[0].buffer, true);
    }
    for (const DraftStep& step : draft_.steps) {
      poll_interruption();
      if (step.is_move) continue;
      for (const View& result : step.results)
        for (const DraftOperand& operand : step.operands)
          if (operand.in_place && operand.buffer >= 0 && try_join(result.buffer, operand.buffer, false))
            break;
    }
    for (size_t b = 0; b < parent_.size(); ++b) parent_[b] = find(static_cast<int>(b));
    return parent_;
  }

 private:
  int find(int b) {
    while (parent_[b] != b) b = parent_[b] = parent_[parent_[b]];
    return b;
  }

  // Temporaries stay out of variables: an interrupted run leaves in a variable only values that were meant
  // for it.
  bool try_join(int a, int b, bool may_be_variable) {
    a = find(a);
    b = find(b);
    if (a == b) return true;
    const VirtualBuffer &x = draft_.buffers[a], &y = draft_.buffers[b];
    auto joinable = [](const VirtualBuffer& v) {
      return v.storage == Storage::kArena || (v.storage == Storage::kVariable && v.written && !v.is_remote) ||
             (v.storage == Storage::kParameter && v.written);
    };
    if (!joinable(x) || !joinable(y) || x.bytes != y.bytes) return false;
    bool x_pinned = x.storage != Storage::kArena, y_pinned = y.storage != Storage::kArena;
    if ((x_pinned && y_pinned) || ((x_pinned || y_pinned) && !may_be_variable)) return false;
    if (ranges_[a].overlaps(ranges_[b])) return false;
    if (y_pinned) std::swap(a, b);  // the variable or parameter represents its class
    ranges_[a].join(ranges_[b]);
    ranges_[b].segments.clear();
    parent_[b] = a;
    return true;
  }

  const Draft& draft_;
  std::vector<LiveRange>& ranges_;
  std::vector<int> parent_;
};

}  // namespace

std::vector<int> coalesce(const Draft& draft, std::vector<LiveRange>& ranges) {
  return Coalescer(draft, ranges).run();
}

}  // namespace ipu::lowering
