// Proof of an arena plan: no two arena buffers that are alive together share bytes. Liveness is computed anew
// from the instructions as dataflow over basic blocks (loops and branches included), not taken from the
// planner. A buffer is alive where some write may reach and some read may follow; writes that cover only a
// part of it do not end its life. Outputs of a subroutine are followed too: they lie elsewhere, but are read by
// its return. Cost: blocks x buffers/64 words per round of the fixpoint, then one walk
// over the instructions.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_set>

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

struct Frame {
  int64_t begin = 0, end = 0;  // bytes of the arena
};

class PlanChecker {
 public:
  // `frames`: by subroutine, the bytes of the arena it and what it calls use. `outputs`: of this section.
  PlanChecker(const IpuProgram& program, CodeRange range, const std::vector<Frame>& frames,
              const std::vector<int>& outputs)
      : program_(program),
        range_(range),
        words_((program.buffers.size() + 63) / 64),
        frames_(frames),
        outputs_(outputs),
        is_output_(outputs.begin(), outputs.end()) {}

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
  bool in_arena(const Operand& operand) const {  // or a parameter that is followed
    if (operand.buffer < 0 || program_.buffers[operand.buffer].bytes == 0) return false;
    return program_.buffers[operand.buffer].storage == Storage::kArena || is_output(operand.buffer);
  }
  bool is_output(int buffer) const { return is_output_.contains(buffer); }
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
        if (steps[i].opcode == Opcode::kReturn)
          for (int b : outputs_)
            if (program_.buffers[b].bytes > 0 && !test(block.covers, b)) set(block.reads, b);
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
      if (buffer.storage == Storage::kParameter) return;
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
      if (program_.buffers[b].storage == Storage::kParameter) return;
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
      if (step.opcode == Opcode::kReturn)
        for (int b : outputs_)
          if (program_.buffers[b].bytes > 0 && !may_be_written(b, i))
            throw Error(
                ErrorCode::kInvalidProgram,
                fmt::format("invalid plan: instruction {} returns without output {} ({}), which nothing "
                            "has written",
                            i, b, program_.buffers[b].name));
      if (step.opcode == Opcode::kCall) keep_out_of(frames_[step.object], alive, i);
      for (const Operand& result : step.results) {
        if (!in_arena(result)) continue;
        bool read_here = std::any_of(step.operands.begin(), step.operands.end(),
                                     [&](const Operand& operand) { return operand.buffer == result.buffer; });
        if (!read_here && (covers(result) || !may_be_written(result.buffer, i))) leave(result.buffer);
      }
    }
  }

  // A call may overwrite all bytes of the subroutine's frame.
  void keep_out_of(const Frame& frame, const std::map<int64_t, int>& alive, int at) const {
    if (frame.begin >= frame.end) return;
    auto next = alive.lower_bound(frame.end);
    if (next == alive.begin()) return;
    const Buffer& buffer = program_.buffers[std::prev(next)->second];
    if (buffer.offset + buffer.bytes <= frame.begin) return;
    throw Error(
        ErrorCode::kInvalidProgram,
        fmt::format("invalid plan: buffer {} ({}, {}) is alive at the call of instruction {}, and the "
                    "subroutine uses bytes {} to {}",
                    std::prev(next)->second, buffer.name, range(buffer), at, frame.begin, frame.end));
  }

  static std::string range(const Buffer& buffer) {
    return fmt::format("bytes {} to {}", buffer.offset, buffer.offset + buffer.bytes);
  }

  const IpuProgram& program_;
  const CodeRange range_;
  const size_t words_;
  const std::vector<Frame>& frames_;
  const std::vector<int>& outputs_;
  const std::unordered_set<int> is_output_;
  std::vector<Block> blocks_;
};

// From the first to behind the last byte of the arena; subroutines call only those before them.
std::vector<Frame> find_frames(const IpuProgram& program) {
  std::vector<Frame> frames;
  for (size_t s = 0; s < program.subroutines.size(); ++s) {
    Frame frame{INT64_MAX, 0};
    auto add = [&](int64_t begin, int64_t end) {
      if (begin >= end) return;
      frame.begin = std::min(frame.begin, begin);
      frame.end = std::max(frame.end, end);
    };
    const CodeRange range = code_of_subroutine(program, static_cast<int>(s));
    for (int i = range.begin; i < range.end; ++i) {
      const Instruction& step = program.instructions[i];
      if (step.opcode == Opcode::kCall) add(frames[step.object].begin, frames[step.object].end);
      for (const auto* list : {&step.operands, &step.results})
        for (const Operand& operand : *list) {
          if (operand.buffer < 0) continue;
          const Buffer& buffer = program.buffers[operand.buffer];
          if (buffer.storage == Storage::kArena) add(buffer.offset, buffer.offset + buffer.bytes);
        }
    }
    frames.push_back(frame);
  }
  return frames;
}

}  // namespace

void check_plan(const IpuProgram& program) {
  const std::vector<Frame> frames = find_frames(program);
  const std::vector<CodeRange> sections = code_sections(program);
  const size_t entries = sections.size() - program.subroutines.size();
  const std::vector<int> none;
  for (size_t s = 0; s < sections.size(); ++s)
    PlanChecker(program, sections[s], frames, s < entries ? none : program.subroutines[s - entries].outputs)
        .run();
}

}  // namespace ipu::program
