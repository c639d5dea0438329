// Liveness of virtual buffers: dataflow over basic blocks, then exact ranges by one backward walk per block.
#include <algorithm>

#include "lowering/draft.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

using program::Opcode;
using Bits = std::vector<uint64_t>;

struct Block {
  int first = 0, last = 0;
  std::vector<int> successors;
  Bits reads, writes, live_in, live_out;
};

bool test(const Bits& bits, int i) { return (bits[i / 64] >> (i % 64)) & 1; }
void set(Bits& bits, int i) { bits[i / 64] |= uint64_t{1} << (i % 64); }

bool covers(const VirtualBuffer& buffer, const View& result) {
  return result.byte_offset == 0 && result.spec.stored_bytes() == buffer.bytes;
}

std::vector<Block> make_blocks(const Draft& draft) {
  const int n = static_cast<int>(draft.steps.size());
  const size_t words = (draft.buffers.size() + 63) / 64;
  std::vector<char> starts(n + 2, 0);
  starts[0] = 1;
  for (int i = 0; i < n; ++i) {
    const DraftStep& step = draft.steps[i];
    bool loops = step.opcode == Opcode::kLoop || step.opcode == Opcode::kEndLoop;
    if (loops || step.opcode == Opcode::kBranchIfNot || step.opcode == Opcode::kBranchUnlessCounter ||
        step.opcode == Opcode::kJump) {
      starts[i + 1] = 1;
      starts[loops ? step.target + 1 : step.target] = 1;
    }
  }
  std::vector<Block> blocks;
  std::vector<int> block_at(n + 1, -1);
  for (int i = 0; i < n; ++i) {
    if (starts[i]) {
      blocks.emplace_back();
      blocks.back().first = i;
    }
    block_at[i] = static_cast<int>(blocks.size()) - 1;
    blocks.back().last = i + 1;
  }
  for (Block& block : blocks) {
    const DraftStep& last = draft.steps[block.last - 1];
    auto link = [&](int step) {
      if (step < n) block.successors.push_back(block_at[step]);
    };
    switch (last.opcode) {
      case Opcode::kJump:
        link(last.target);
        break;
      case Opcode::kBranchIfNot:
      case Opcode::kBranchUnlessCounter:
        link(block.last);
        link(last.target);
        break;
      case Opcode::kLoop:
      case Opcode::kEndLoop:
        link(block.last);
        link(last.target + 1);
        break;
      default:
        link(block.last);
    }
    block.reads = block.writes = block.live_in = block.live_out = Bits(words, 0);
    for (int i = block.first; i < block.last; ++i) {
      for (const DraftOperand& operand : draft.steps[i].operands)
        if (operand.buffer >= 0 && !test(block.writes, operand.buffer)) set(block.reads, operand.buffer);
      for (const View& result : draft.steps[i].results)
        if (covers(draft.buffers[result.buffer], result)) set(block.writes, result.buffer);
    }
  }
  return blocks;
}

}  // namespace

bool LiveRange::overlaps(const LiveRange& other) const {
  for (size_t i = 0, j = 0; i < segments.size() && j < other.segments.size();) {
    if (segments[i].end <= other.segments[j].begin) {
      ++i;
    } else if (other.segments[j].end <= segments[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

void LiveRange::join(const LiveRange& other) {
  std::vector<Segment> all;
  std::merge(segments.begin(), segments.end(), other.segments.begin(), other.segments.end(),
             std::back_inserter(all), [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
  segments.clear();
  for (const Segment& segment : all) {
    if (!segments.empty() && segment.begin <= segments.back().end) {
      segments.back().end = std::max(segments.back().end, segment.end);
    } else {
      segments.push_back(segment);
    }
  }
}

std::vector<LiveRange> live_ranges(const Draft& draft) {
  std::vector<LiveRange> ranges(draft.buffers.size());
  if (draft.steps.empty()) return ranges;
  std::vector<Block> blocks = make_blocks(draft);
  const size_t words = blocks[0].reads.size();
  Bits at_exit(words, 0);
  for (size_t b = 0; b < draft.buffers.size(); ++b)
    if (draft.buffers[b].storage != program::Storage::kArena && draft.buffers[b].written)
      set(at_exit, static_cast<int>(b));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      poll_interruption();
      Block& block = blocks[b];
      for (size_t w = 0; w < words; ++w) {
        uint64_t out = b + 1 == blocks.size() ? at_exit[w] : 0;
        for (int s : block.successors) out |= blocks[s].live_in[w];
        // A branch past the last step leaves the program too.
        if (block.successors.empty()) out |= at_exit[w];
        uint64_t in = block.reads[w] | (out & ~block.writes[w]);
        changed |= in != block.live_in[w];
        block.live_in[w] = in;
        block.live_out[w] = out;
      }
    }
  }
  // Walk backwards; `end[b]` is where the current segment of a living buffer ends. Segments come out last
  // first.
  std::vector<int64_t> end(draft.buffers.size(), -1);
  std::vector<int> alive;
  auto open = [&](int b, int64_t at) {
    if (end[b] >= 0) {
      end[b] = std::max(end[b], at);
      return;
    }
    end[b] = at;
    alive.push_back(b);
  };
  auto close = [&](int b, int64_t at) {
    ranges[b].segments.push_back({at, end[b]});
    end[b] = -1;
  };
  for (size_t k = blocks.size(); k-- > 0;) {
    const Block& block = blocks[k];
    for (size_t w = 0; w < words; ++w)
      for (uint64_t rest = block.live_out[w]; rest != 0; rest &= rest - 1)
        open(static_cast<int>(w) * 64 + __builtin_ctzll(rest), 2 * int64_t{block.last});
    for (int i = block.last - 1; i >= block.first; --i) {
      poll_interruption();
      const DraftStep& step = draft.steps[i];
      const int64_t at = 2 * int64_t{i};
      for (const View& result : step.results) open(result.buffer, at + 2);
      for (const View& result : step.results)
        if (end[result.buffer] >= 0 && covers(draft.buffers[result.buffer], result))
          close(result.buffer, at + 1);
      for (const DraftOperand& operand : step.operands)
        if (operand.buffer >= 0) open(operand.buffer, operand.in_place ? at + 1 : at + 2);
    }
    for (int b : alive)
      if (end[b] >= 0) close(b, 2 * int64_t{block.first});
    alive.clear();
  }
  for (LiveRange& range : ranges) {
    std::sort(range.segments.begin(), range.segments.end(),
              [](const LiveRange::Segment& a, const LiveRange::Segment& b) { return a.begin < b.begin; });
    LiveRange joined;
    joined.join(range);
    range = std::move(joined);
  }
  return ranges;
}

}  // namespace ipu::lowering
