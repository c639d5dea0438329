// Structural check of a program: what an engine may rely on without looking again. Liveness of arena buffers
// is check_plan, order of rings check_deadlock.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "program/check_io_tiles.h"
#include "program/check_subroutines.h"
#include "program/check_variables.h"
#include "program/host_elements.h"
#include "program/program.h"
#include "support/checked.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {
namespace {

class Checker {
 public:
  Checker(const Program& program, int ipu) : program_(program), ipu_(ipu), code_(program.ipus[ipu]) {}

  void run() {
    for (size_t b = 0; b < code_.buffers.size(); ++b) check_buffer(static_cast<int>(b));
    check_entries();
    subroutines_ = check_subroutines(code_, ipu_);
    find_definitions();
    sections_ = code_sections(code_);
    const int entries = static_cast<int>(sections_.size() - code_.subroutines.size());
    for (size_t section = 0; section < sections_.size(); ++section) {
      range_ = sections_[section];
      subroutine_ = static_cast<int>(section) - entries;
      for (at_ = range_.begin; at_ < range_.end; ++at_) {
        poll_interruption();
        check_instruction(code_.instructions[at_]);
      }
      require(loops_.empty(), "a loop has no end");
    }
    check_targets();
  }

 private:
  void require(bool condition, const std::string& what) const {
    if (!condition)
      throw Error(ErrorCode::kInvalidProgram,
                  fmt::format("invalid program: {}: {}", describe(program_, ipu_, at_), what));
  }

  void check_entries() const {
    auto fits = [&](bool condition, const std::string& what) {
      if (!condition)
        throw Error(ErrorCode::kInvalidProgram, fmt::format("invalid program: IPU {}: {}", ipu_, what));
    };
    if (code_.entries.empty())
      return fits(program_.entry_points.size() == 1, "its entry points do not begin");
    fits(code_.entries.size() == program_.entry_points.size(),
         fmt::format("{} entry points begin, the program has {}", code_.entries.size(),
                     program_.entry_points.size()));
    fits(code_.entries.front() == 0 && std::is_sorted(code_.entries.begin(), code_.entries.end()) &&
             code_.entries.back() <= (code_.subroutines.empty() ? static_cast<int>(code_.instructions.size())
                                                                : code_.subroutines.front().begin),
         "its entry points are not one behind the other");
  }

  // The subroutine finds its parameters where the step says.
  void check_call(const Instruction& step) {
    const int earlier = subroutine_ >= 0 ? subroutine_ : static_cast<int>(code_.subroutines.size());
    require(step.object >= 0 && step.object < earlier,
            "no such subroutine before this one: a subroutine calls only those listed before it");
    const Subroutine& called = code_.subroutines[step.object];
    check_counts(step, called.inputs.size(), called.outputs.size());
    for (size_t i = 0; i < step.operands.size(); ++i)
      check_whole(step.operands[i], code_.buffers[called.inputs[i]].bytes, "operand");
    std::set<int> written;
    for (size_t i = 0; i < step.results.size(); ++i) {
      check_whole(step.results[i], code_.buffers[called.outputs[i]].bytes, "result");
      require(written.insert(step.results[i].buffer).second, "two results are in one buffer");
    }
    for (const Operand& operand : step.operands)
      require(!written.contains(operand.buffer), "a result is in the buffer of an operand");
  }

  void check_buffer(int b) const {
    const Buffer& buffer = code_.buffers[b];
    auto fits = [&](bool condition, const std::string& what) {
      if (!condition)
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid program: IPU {}, buffer {} ({}): {}", ipu_, b, buffer.name, what));
    };
    fits(buffer.bytes >= 0 && buffer.offset >= 0, "negative size or offset");
    switch (buffer.storage) {
      case Storage::kArena:
        fits(buffer.offset <= code_.arena_bytes && buffer.bytes <= code_.arena_bytes - buffer.offset,
             fmt::format("{} bytes at {} leave the arena of {}", buffer.bytes, buffer.offset,
                         code_.arena_bytes));
        break;
      case Storage::kVariable: {
        fits(buffer.index >= 0 && buffer.index < static_cast<int>(program_.variables.size()),
             "no such variable");
        const Variable& variable = program_.variables[buffer.index];
        fits(variable.ipu == ipu_, fmt::format("variable {} is on IPU {}", variable.name, variable.ipu));
        fits(buffer.bytes <= variable.spec.stored_bytes() - buffer.offset,
             "larger than variable " + variable.name);
        break;
      }
      case Storage::kConstant: {
        fits(buffer.index >= 0 && buffer.index < static_cast<int>(program_.constants.size()) &&
                 program_.constants[buffer.index] != nullptr,
             "no such constant");
        int64_t size = static_cast<int64_t>(program_.constants[buffer.index]->bytes.size());
        fits(buffer.bytes <= size - buffer.offset, fmt::format("larger than its constant of {} bytes", size));
        break;
      }
      case Storage::kExternal:
        break;
      case Storage::kParameter:
        fits(buffer.offset == 0, "a parameter has no offset");
        break;
    }
  }

  // What says where each external buffer lies: what is read, or the places of one stream.
  void find_definitions() {
    defined_by_.assign(code_.buffers.size(), kNobody);
    for (const Instruction& step : code_.instructions) {
      at_ = static_cast<int>(&step - code_.instructions.data());
      if (!defines_external(step.opcode)) continue;
      const bool places = step.opcode == Opcode::kStreamPlace;
      for (const Operand& result : step.results) {
        if (result.buffer < 0 || result.buffer >= static_cast<int>(code_.buffers.size()))
          continue;  // refused
        if (code_.buffers[result.buffer].storage != Storage::kExternal) continue;
        int& by = defined_by_[result.buffer];
        const int now = places ? std::max(step.object, 0) : kReading;
        require(by == kNobody || by == now, fmt::format("buffer {} lies where another step says, too",
                                                        code_.buffers[result.buffer].name));
        by = now;
      }
    }
  }

  bool may_write_external(const Instruction& step, int buffer) const {
    if (defined_by_[buffer] != kReading) return defined_by_[buffer] != kNobody;
    return defines_external(step.opcode);
  }

  void check_operand(const Operand& operand, const char* role, bool optional) const {
    if (operand.buffer == -1 && optional) return;
    require(operand.buffer >= 0 && operand.buffer < static_cast<int>(code_.buffers.size()),
            fmt::format("{} names buffer {}, which this IPU does not have", role, operand.buffer));
    const Buffer& buffer = code_.buffers[operand.buffer];
    require(buffer.storage != Storage::kParameter ||
                (subroutine_ >= 0 && subroutines_.owner[operand.buffer] == subroutine_),
            fmt::format("{} is parameter {} of another place", role, buffer.name));
    require(!operand.spec.layout.is_plain() || operand.spec.strides.size() == operand.spec.shape.size(),
            fmt::format("{} has {} strides for {} dimensions", role, operand.spec.strides.size(),
                        operand.spec.shape.size()));
    int64_t extent = extent_bytes(operand.spec);
    require(operand.byte_offset >= 0 && operand.byte_offset <= buffer.bytes &&
                extent <= buffer.bytes - operand.byte_offset,
            fmt::format("{} needs {} bytes from byte {} on, buffer {} ({}) has {}", role, extent,
                        operand.byte_offset, operand.buffer, buffer.name, buffer.bytes));
  }

  void check_counts(const Instruction& step, size_t operands, size_t results) const {
    require(step.operands.size() == operands && step.results.size() == results,
            fmt::format("takes {} operands and {} results", operands, results));
  }

  void check_whole(const Operand& operand, int64_t bytes, const char* what) const {
    require(!operand.spec.layout.is_plain() || operand.spec.is_contiguous(),
            std::string(what) + " is not contiguous");
    require(operand.spec.stored_bytes() == bytes,
            fmt::format("{} has {} bytes, not {}", what, operand.spec.stored_bytes(), bytes));
  }

  void check_collective(const Instruction& step) const {
    check_counts(step, 1, 1);
    const std::span<const std::string_view> known = collective_kernels();
    require(std::find(known.begin(), known.end(), step.kernel) != known.end(),
            fmt::format("unknown collective '{}'", step.kernel));
    check_whole(step.operands[0], step.operands[0].spec.stored_bytes(), "operand");
    check_whole(step.results[0], step.results[0].spec.stored_bytes(), "result");
    require(step.operands[0].spec.dtype == step.results[0].spec.dtype,
            "operand and result have different element types");
    const std::string problem = group_of(step).problem(program_.job_replicas());
    require(problem.empty(), fmt::format("its grouping {}", problem));
  }

  // `value` is an entry of the remote buffer, `entry` its number.
  void check_remote(const Instruction& step, const Operand& value, const Operand& entry,
                    const char* what) const {
    require(step.object >= 0 && step.object < static_cast<int>(program_.remote_buffers.size()),
            "no such remote buffer");
    const RemoteBuffer& buffer = program_.remote_buffers[step.object];
    require(buffer.ipu == ipu_, fmt::format("remote buffer {} belongs to IPU {}", buffer.name, buffer.ipu));
    require(value.spec.dtype == buffer.spec.dtype, "element type differs from the remote buffer's");
    check_whole(value, buffer.spec.stored_bytes(), what);
    const TensorSpec& number = entry.spec;
    require((number.dtype == DType::kI32 || number.dtype == DType::kU32) && number.layout.is_plain() &&
                std::all_of(number.shape.begin(), number.shape.end(), [](int64_t n) { return n == 1; }),
            "the entry is not one i32 or u32");
  }

  const Ring& ring(const Instruction& step) const {
    require(step.object >= 0 && step.object < static_cast<int>(program_.rings.size()), "no such ring");
    return program_.rings[step.object];
  }
  const Stream& stream(const Instruction& step) const {
    require(step.object >= 0 && step.object < static_cast<int>(program_.streams.size()), "no such stream");
    const Stream& result = program_.streams[step.object];
    require(result.ipu == ipu_, fmt::format("stream {} belongs to IPU {}", result.name, result.ipu));
    return result;
  }
  const Instruction& target(const Instruction& step) const {
    require(step.target >= range_.begin && step.target < range_.end, "target out of range");
    return code_.instructions[step.target];
  }

  void check_instruction(const Instruction& step) {
    for (const Operand& operand : step.operands)
      check_operand(operand, "operand", step.opcode == Opcode::kKernel);
    for (const Operand& result : step.results) {
      check_operand(result, "result", false);
      const Buffer& buffer = code_.buffers[result.buffer];
      require(buffer.storage != Storage::kConstant, "writes constant " + buffer.name);
      require(buffer.storage != Storage::kParameter || subroutines_.is_output[result.buffer] != 0,
              "writes input " + buffer.name + " of its subroutine");
      if (buffer.storage == Storage::kVariable)
        require(program_.variables[buffer.index].written,
                fmt::format("writes variable {}, which is declared read-only", buffer.name));
      if (buffer.storage == Storage::kExternal)
        require(may_write_external(step, result.buffer), "writes external buffer " + buffer.name);
    }
    require(step.origin < static_cast<int>(program_.origins.size()), "origin out of range");
    inside_.push_back(loops_.empty() ? -1 : loops_.back());
    switch (step.opcode) {
      case Opcode::kKernel:
        require(!step.kernel.empty(), "no kernel");
        break;
      case Opcode::kLoop:
        check_counts(step, 0, 0);
        require(step.counter >= 0 && step.counter < code_.counters, "counter out of range");
        require(step.trip >= 0, "negative trip count");
        require(step.target > at_ && target(step).opcode == Opcode::kEndLoop && target(step).target == at_,
                "its target is not its end");
        require(counters_.insert(step.counter).second, "counter is used by an enclosing loop");
        require(subroutines_.counter_owner[step.counter] == std::max(subroutine_, -1),
                "counter belongs to a subroutine");
        loops_.push_back(at_);
        break;
      case Opcode::kEndLoop:
        require(!loops_.empty() && step.target == loops_.back(), "does not end the innermost loop");
        require(step.counter == target(step).counter, "counts another counter than its loop");
        counters_.erase(step.counter);
        loops_.pop_back();
        break;
      case Opcode::kCounter:
        check_counts(step, 0, 1);
        require(counters_.contains(step.counter), "counter of no enclosing loop");
        require(step.results[0].spec.dtype == DType::kI32 && step.results[0].spec.shape.empty(),
                "result is not i32[]");
        break;
      case Opcode::kReplica:
        check_counts(step, 0, 1);
        require(step.results[0].spec.dtype == DType::kI32 && step.results[0].spec.shape.empty(),
                "result is not i32[]");
        break;
      case Opcode::kBranchIfNot:
        check_counts(step, 1, 0);
        require(step.operands[0].spec.dtype == DType::kBool && step.operands[0].spec.shape.empty(),
                "condition is not bool[]");
        break;
      case Opcode::kBranchUnlessCounter:
        check_counts(step, 0, 0);
        require(counters_.contains(step.counter), "counter of no enclosing loop");
        break;
      case Opcode::kJump:
        check_counts(step, 0, 0);
        break;
      case Opcode::kStreamLoad: {
        check_counts(step, 0, 1);
        const Stream& from = stream(step);
        require(from.mode == StreamMode::kInput || from.mode == StreamMode::kConstantInput,
                "loads from an output stream");
        require(step.results[0].spec.dtype == from.spec.dtype, "element type differs from the stream's");
        check_whole(step.results[0], from.spec.stored_bytes(), "element");
        require(code_.buffers[step.results[0].buffer].storage != Storage::kExternal ||
                    from.host_dtype == from.spec.dtype,
                fmt::format("reads the host's {} in place as {}", ipu::to_string(from.host_dtype),
                            ipu::to_string(from.spec.dtype)));
        break;
      }
      case Opcode::kStreamPlace: {
        check_counts(step, 0, 1);
        const Stream& to = stream(step);
        require(!to.is_input(), "asks an input stream for a place");
        require(code_.buffers[step.results[0].buffer].storage == Storage::kExternal,
                "its result is no external buffer");
        require(step.results[0].spec.dtype == to.spec.dtype && to.host_dtype == to.spec.dtype,
                "element type differs from the stream's");
        check_whole(step.results[0], to.spec.stored_bytes(), "element");
        break;
      }
      case Opcode::kStreamStore: {
        check_counts(step, 1, 0);
        const Stream& to = stream(step);
        require(to.mode != StreamMode::kInput && to.mode != StreamMode::kConstantInput,
                "stores to an input stream");
        require(step.operands[0].spec.dtype == to.spec.dtype, "element type differs from the stream's");
        check_whole(step.operands[0], to.spec.stored_bytes(), "element");
        break;
      }
      case Opcode::kPush:
        check_counts(step, 1, 0);
        require(ring(step).from_ipu == ipu_,
                fmt::format("ring {} is filled by IPU {}", ring(step).name, ring(step).from_ipu));
        check_whole(step.operands[0], ring(step).bytes, "element");
        break;
      case Opcode::kPop:
        check_counts(step, 0, 1);
        require(ring(step).to_ipu == ipu_,
                fmt::format("ring {} is emptied by IPU {}", ring(step).name, ring(step).to_ipu));
        check_whole(step.results[0], ring(step).bytes, "element");
        break;
      case Opcode::kRelease:
        check_counts(step, 0, 0);
        require(ring(step).to_ipu == ipu_,
                fmt::format("ring {} is emptied by IPU {}", ring(step).name, ring(step).to_ipu));
        break;
      case Opcode::kCollective:
        check_collective(step);
        break;
      case Opcode::kRemoteLoad:
        check_counts(step, 1, 1);
        check_remote(step, step.results[0], step.operands[0], "result");
        break;
      case Opcode::kRemoteStore:
        check_counts(step, 2, 0);
        check_remote(step, step.operands[0], step.operands[1], "value");
        break;
      case Opcode::kCall:
        check_call(step);
        break;
      case Opcode::kReturn:
        check_counts(step, 0, 0);
        require(subroutine_ >= 0 && at_ + 1 == range_.end,
                "returns elsewhere than at the end of a subroutine");
        break;
    }
  }

  // Branches and jumps go forward and stay in their loop; the end of the loop itself is a legal target. A
  // branch may leave its loop for what follows it.
  void check_targets() {
    for (const CodeRange& section : sections_) {
      range_ = section;
      for (at_ = range_.begin; at_ < range_.end; ++at_) check_target(code_.instructions[at_]);
    }
  }

  void check_target(const Instruction& step) const {
    poll_interruption();
    if (step.opcode != Opcode::kBranchIfNot && step.opcode != Opcode::kBranchUnlessCounter &&
        step.opcode != Opcode::kJump)
      return;
    const bool is_subroutine = code_.instructions[range_.end - 1].opcode == Opcode::kReturn;
    require(step.target > at_ && step.target <= range_.end - is_subroutine, "target is not ahead");
    const int loop_here = inside_[at_], loop_there = step.target < range_.end ? inside_[step.target] : -1;
    const bool leaves = step.opcode == Opcode::kBranchIfNot && loop_here >= 0 &&
                        step.target == code_.instructions[loop_here].target + 1;
    require(loop_there == loop_here || leaves, "target is in another loop");
  }

  const Program& program_;
  const int ipu_;
  const IpuProgram& code_;
  CodeRange range_;  // of the entry point or subroutine at hand
  std::vector<CodeRange> sections_;
  int subroutine_ = -1;  // at hand; negative: an entry point
  SubroutineTable subroutines_;
  int at_ = 0;
  std::vector<int> loops_;   // open kLoop instructions
  std::vector<int> inside_;  // per instruction: the loop around it
  std::set<int> counters_;   // of the open loops
  // By external buffer: the stream whose places it is, or one of these.
  static constexpr int kNobody = -1, kReading = -2;
  std::vector<int> defined_by_;
};

}  // namespace

void check_program(const Program& program) {
  auto require = [](bool condition, const std::string& what) {
    if (!condition) throw Error(ErrorCode::kInvalidProgram, "invalid program: " + what);
  };
  const int processors = static_cast<int>(program.ipus.size()), ipus = program.ipu_count();
  check_io_tiles(program);
  require(program.replicas >= 1 && program.processes >= 1, "replicas and processes are at least 1");
  require(!program.entry_points.empty(), "it has no entry point");
  require(std::set(program.entry_points.begin(), program.entry_points.end()).size() ==
              program.entry_points.size(),
          "two entry points have one name");
  auto require_groups = [&](const ReplicaGrouping& grouping, int64_t replicas, const std::string& of_what) {
    const std::string problem = grouping.problem(replicas);
    require(problem.empty(), fmt::format("the grouping of {} {}", of_what, problem));
  };
  require_groups(program.input_groups, program.replicas, "the inputs");
  for (const Variable& variable : program.variables) {
    require(variable.ipu >= 0 && variable.ipu < ipus,
            fmt::format("variable {} is on no IPU of the program", variable.name));
    require(variable.constant >= -1 && variable.constant < static_cast<int>(program.constants.size()),
            fmt::format("variable {} starts from a constant that is not there", variable.name));
    require_groups(variable.groups, program.job_replicas(), "variable " + variable.name);
  }
  check_variables(program);
  for (const Ring& ring : program.rings) {
    require(ring.from_ipu >= 0 && ring.from_ipu < processors && ring.to_ipu >= 0 && ring.to_ipu < processors,
            fmt::format("ring {} ends on no IPU of the program", ring.name));
    require(ring.capacity >= 1 && ring.bytes >= 0, fmt::format("ring {} holds nothing", ring.name));
  }
  for (const Stream& stream : program.streams) {
    require(stream.ipu >= 0 && stream.ipu < processors,
            fmt::format("stream {} is on no IPU of the program", stream.name));
    require(stream.spec.is_contiguous(),
            fmt::format("elements of stream {} are not contiguous", stream.name));
    require(stream.period >= 1 && stream.block >= 1,
            fmt::format("stream {} has period {} of blocks of {} elements", stream.name, stream.period,
                        stream.block));
  }
  for (int i = 0; i < processors; ++i) Checker(program, i).run();
  // Sizes of whole streams in the host's memory: computed here once, so that nobody's arithmetic overflows.
  for (int entry = 0; entry < static_cast<int>(program.entry_points.size()); ++entry) {
    const std::vector<HostElements> elements = host_elements(program, entry);
    for (size_t s = 0; s < elements.size(); ++s)
      static_cast<void>(Checked(elements[s].count()) *
                        size_in_bytes(program.streams[s].host_dtype, program.streams[s].spec.shape));
  }
}

}  // namespace ipu::program
