// Proof of an arena plan: no two arena buffers that are alive together share bytes. Liveness is computed anew
// from the instructions as dataflow over basic blocks (loops and branches included), not taken from the
// planner. A buffer is alive where some write may reach and some read may follow; writes that cover only a
// part of it do not end its life. Cost: blocks x buffers/64 words per round of the fixpoint, then one walk
// over the instructions.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "program/program.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {
namespace {

using Bits = std::vector<uint64_t>;
bool test(const Bits& bits, int i) { return (bits[i / 64] >> (i % 64)) & 1; }
void set(Bits& bits, int i) { bits[i / 64] |= uint64_t{1} << (i % 64); }

struct Block {
  int first = 0, last = 0;  // instructions, half open
  std::vector<int> successors, predecessors;
  Bits reads, covers, writes;  // read before covered; covered in full; written at all
  Bits live_in, live_out;      // a read may follow
  Bits written_in;             // a write may have happened
};

class PlanChecker {
 public:
  PlanChecker(const IpuProgram& program, CodeRange range)
      : program_(program), range_(range), words_((program.buffers.size() + 63) / 64) {}

  void run() {
    if (range_.begin == range_.end) return;
    make_blocks();
    solve();
    std::vector<char> reachable(blocks_.size(), 0);
    std::vector<int> work{0};
    while (!work.empty()) {
      int b = work.back();
      work.pop_back();
      if (reachable[b]) continue;
      reachable[b] = 1;
      work.insert(work.end(), blocks_[b].successors.begin(), blocks_[b].successors.end());
    }
    for (size_t b = 0; b < blocks_.size(); ++b)
      if (reachable[b]) walk(blocks_[b]);
  }

 private:
  bool in_arena(const Operand& operand) const {
    return operand.buffer >= 0 && program_.buffers[operand.buffer].storage == Storage::kArena &&
           program_.buffers[operand.buffer].bytes > 0;
  }
  bool covers(const Operand& result) const {
    return result.byte_offset == 0 && (!result.spec.layout.is_plain() || result.spec.is_contiguous()) &&
           result.spec.stored_bytes() == program_.buffers[result.buffer].bytes;
  }

  void make_blocks() {
    const std::vector<Instruction>& steps = program_.instructions;
    const int begin = range_.begin, end = range_.end;
    std::vector<char> starts(end - begin + 1, 0);
    starts[0] = 1;
    for (int i = begin; i < end; ++i) {
      switch (steps[i].opcode) {
        case Opcode::kLoop:
        case Opcode::kEndLoop:
          starts[i + 1 - begin] = 1;
          starts[steps[i].target + 1 - begin] = 1;
          break;
        case Opcode::kBranchIfNot:
        case Opcode::kBranchUnlessCounter:
        case Opcode::kJump:
          starts[i + 1 - begin] = 1;
          starts[steps[i].target - begin] = 1;
          break;
        default:
          break;
      }
    }
    std::vector<int> block_at(end - begin, -1);
    for (int i = begin; i < end; ++i) {
      if (starts[i - begin]) {
        blocks_.emplace_back();
        blocks_.back().first = i;
      }
      block_at[i - begin] = static_cast<int>(blocks_.size()) - 1;
      blocks_.back().last = i + 1;
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      poll_interruption();
      Block& block = blocks_[b];
      const Instruction& last = steps[block.last - 1];
      auto link = [&](int instruction) {
        if (instruction >= end) return;
        const int to = block_at[instruction - begin];
        block.successors.push_back(to);
        blocks_[to].predecessors.push_back(static_cast<int>(b));
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
          if (last.trip > 0) link(block.last);
          if (last.trip == 0) link(last.target + 1);
          break;
        case Opcode::kEndLoop:
          link(block.last);
          if (steps[last.target].trip > 1) link(last.target + 1);
          break;
        default:
          link(block.last);
      }
      block.reads = block.covers = block.writes = block.live_in = block.live_out = block.written_in =
          Bits(words_, 0);
      for (int i = block.first; i < block.last; ++i) {
        for (const Operand& operand : steps[i].operands)
          if (in_arena(operand) && !test(block.covers, operand.buffer)) set(block.reads, operand.buffer);
        for (const Operand& result : steps[i].results) {
          if (!in_arena(result)) continue;
          set(block.writes, result.buffer);
          if (covers(result) && !test(block.reads, result.buffer)) set(block.covers, result.buffer);
        }
      }
    }
  }

  void solve() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        poll_interruption();
        Block& block = blocks_[b];
        for (size_t w = 0; w < words_; ++w) {
          uint64_t out = 0;
          for (int s : block.successors) out |= blocks_[s].live_in[w];
          uint64_t in = block.reads[w] | (out & ~block.covers[w]);
          changed |= in != block.live_in[w];
          block.live_out[w] = out;
          block.live_in[w] = in;
        }
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (Block& block : blocks_) {
        poll_interruption();
        for (size_t w = 0; w < words_; ++w) {
          uint64_t in = block.written_in[w];
          for (int p : block.predecessors) in |= blocks_[p].written_in[w] | blocks_[p].writes[w];
          changed |= in != block.written_in[w];
          block.written_in[w] = in;
        }
      }
    }
  }

  // Backwards through a block with the set of living buffers ordered by address; each one that joins must
  // find its bytes free.
  void walk(const Block& block) {
    std::map<int64_t, int> alive;  // offset → buffer
    auto join = [&](int b, int at) {
      const Buffer& buffer = program_.buffers[b];
      auto next = alive.lower_bound(buffer.offset);
      if (next != alive.end() && next->second == b) return;
      int other = -1;
      if (next != alive.end() && next->first < buffer.offset + buffer.bytes) other = next->second;
      if (next != alive.begin()) {
        const Buffer& before = program_.buffers[std::prev(next)->second];
        if (before.offset + before.bytes > buffer.offset) other = std::prev(next)->second;
      }
      if (other >= 0)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid plan: buffers {} ({}, {}) and {} ({}, {}) overlap "
                                "and are alive together at instruction {}",
                                b, buffer.name, range(buffer), other, program_.buffers[other].name,
                                range(program_.buffers[other]), at));
      if (buffer.offset + buffer.bytes > program_.arena_bytes)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid plan: buffer {} ({}, {}) leaves the arena of {} bytes", b,
                                buffer.name, range(buffer), program_.arena_bytes));
      alive.emplace(buffer.offset, b);
    };
    auto leave = [&](int b) {
      auto at = alive.find(program_.buffers[b].offset);
      if (at != alive.end() && at->second == b) alive.erase(at);
    };
    // Which buffers may hold something before each instruction: first write in this block, unless written
    // before it.
    std::map<int, int> first_write;
    for (int i = block.first; i < block.last; ++i)
      for (const Operand& result : program_.instructions[i].results)
        if (in_arena(result) && !test(block.written_in, result.buffer)) first_write.emplace(result.buffer, i);
    auto may_be_written = [&](int b, int before) {
      if (test(block.written_in, b)) return true;
      auto at = first_write.find(b);
      return at != first_write.end() && at->second < before;
    };

    for (size_t w = 0; w < words_; ++w)
      for (uint64_t rest = block.live_out[w]; rest != 0; rest &= rest - 1) {
        int b = static_cast<int>(w) * 64 + __builtin_ctzll(rest);
        if (may_be_written(b, block.last)) join(b, block.last - 1);
      }
    for (int i = block.last - 1; i >= block.first; --i) {
      poll_interruption();
      const Instruction& step = program_.instructions[i];
      for (const Operand& result : step.results)
        if (in_arena(result)) join(result.buffer, i);
      for (const Operand& operand : step.operands) {
        if (!in_arena(operand)) continue;
        if (!may_be_written(operand.buffer, i))
          throw Error(
              ErrorCode::kInvalidProgram,
              fmt::format("invalid plan: instruction {} reads buffer {} ({}), which nothing has written", i,
                          operand.buffer, program_.buffers[operand.buffer].name));
        join(operand.buffer, i);
      }
      for (const Operand& result : step.results) {
        if (!in_arena(result)) continue;
        bool read_here = std::any_of(step.operands.begin(), step.operands.end(),
                                     [&](const Operand& operand) { return operand.buffer == result.buffer; });
        if (!read_here && (covers(result) || !may_be_written(result.buffer, i))) leave(result.buffer);
      }
    }
  }

  static std::string range(const Buffer& buffer) {
    return fmt::format("bytes {} to {}", buffer.offset, buffer.offset + buffer.bytes);
  }

  const IpuProgram& program_;
  const CodeRange range_;
  const size_t words_;
  std::vector<Block> blocks_;
};

}  // namespace

void check_plan(const IpuProgram& program) {
  const int entries = std::max(1, static_cast<int>(program.entries.size()));
  for (int entry = 0; entry < entries; ++entry) PlanChecker(program, code_of(program, entry)).run();
}

}  // namespace ipu::program
