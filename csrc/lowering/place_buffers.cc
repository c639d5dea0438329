// From virtual buffers to memory: drops what joining made superfluous, renumbers, plans the arena.
#include <algorithm>

#include "lowering/arena_plan.h"
#include "lowering/draft.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

using program::Opcode;
using program::Storage;

bool same_place(const View& a, const View& b, const std::vector<int>& representative) {
  return representative[a.buffer] == representative[b.buffer] && a.byte_offset == b.byte_offset;
}

bool only_branches(const DraftStep& step) {
  return step.opcode == Opcode::kJump || step.opcode == Opcode::kBranchUnlessCounter ||
         step.opcode == Opcode::kBranchIfNot;
}

// Steps that stay. Moves within one buffer go; then branches and jumps to what follows them anyway.
std::vector<char> find_kept(const Draft& draft, const std::vector<int>& representative) {
  const int n = static_cast<int>(draft.steps.size());
  std::vector<char> kept(n, 1);
  for (int i = 0; i < n; ++i) {
    const DraftStep& step = draft.steps[i];
    kept[i] = !(step.is_move && same_place(step.operands[0], step.results[0], representative));
  }
  for (bool changed = true; changed;) {
    poll_interruption();
    changed = false;
    std::vector<int> position(n + 1, 0);
    for (int i = 0; i < n; ++i) position[i + 1] = position[i] + kept[i];
    for (int i = 0; i < n; ++i) {
      const DraftStep& step = draft.steps[i];
      if (!kept[i] || !only_branches(step)) continue;
      if (position[step.target] == position[i] + 1) {
        kept[i] = 0;
        changed = true;
      }
    }
  }
  return kept;
}

}  // namespace

program::IpuProgram place_buffers(const Draft& draft, const std::vector<int>& representative,
                                  const std::vector<LiveRange>& ranges) {
  const int n = static_cast<int>(draft.steps.size());
  std::vector<char> kept = find_kept(draft, representative);
  std::vector<int> position(n + 1, 0);
  for (int i = 0; i < n; ++i) position[i + 1] = position[i] + kept[i];

  program::IpuProgram out;
  out.counters = draft.counters;
  std::vector<int> number(draft.buffers.size(), -1);  // of representatives
  std::vector<Interval> intervals;
  std::vector<int> planned;
  auto buffer_of = [&](int b) {
    int r = representative[b];
    if (number[r] >= 0) return number[r];
    const VirtualBuffer& from = draft.buffers[r];
    number[r] = static_cast<int>(out.buffers.size());
    out.buffers.push_back({from.name, from.storage, from.bytes, 0, from.index});
    if (from.storage == Storage::kArena && !ranges[r].segments.empty()) {
      intervals.push_back(
          {from.bytes, ranges[r].segments.front().begin / 2, (ranges[r].segments.back().end - 1) / 2});
      planned.push_back(number[r]);
    }
    return number[r];
  };
  auto operand_of = [&](const View& place) {
    program::Operand operand;
    operand.spec = place.spec;
    if (place.buffer < 0) return operand;
    operand.buffer = buffer_of(place.buffer);
    operand.byte_offset = place.byte_offset;
    return operand;
  };
  for (int i = 0; i < n; ++i) {
    poll_interruption();
    if (!kept[i]) continue;
    const DraftStep& from = draft.steps[i];
    program::Instruction step;
    step.opcode = from.opcode;
    step.kernel = from.kernel;
    step.attributes = from.attributes;
    for (const DraftOperand& operand : from.operands) step.operands.push_back(operand_of(operand));
    for (const View& result : from.results) step.results.push_back(operand_of(result));
    step.object = from.object;
    step.counter = from.counter;
    step.trip = from.trip;
    step.low = from.low;
    step.high = from.high;
    step.origin = from.origin;
    if (from.target >= 0) step.target = position[from.target];
    out.instructions.push_back(std::move(step));
  }
  ArenaPlan plan = plan_arena(intervals);
  for (size_t i = 0; i < planned.size(); ++i) out.buffers[planned[i]].offset = plan.offsets[i];
  out.arena_bytes = plan.arena_bytes;
  out.peak_bytes = plan.peak_bytes;
  for (int i : plan.live_at_peak) out.live_at_peak.push_back(planned[i]);
  return out;
}

}  // namespace ipu::lowering
