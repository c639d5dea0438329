// The program's text for dumps and tests, and the words its messages use for a step.
#include "program/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "support/checked.h"
#include "support/error.h"

namespace ipu::program {
namespace {

std::string_view to_string(Storage storage) {
  switch (storage) {
    case Storage::kArena:
      return "arena";
    case Storage::kVariable:
      return "variable";
    case Storage::kConstant:
      return "constant";
    case Storage::kExternal:
      return "external";
    case Storage::kParameter:
      return "parameter";
  }
  return "?";
}

std::string_view to_string(StreamMode mode) {
  switch (mode) {
    case StreamMode::kFinal:
      return "final";
    case StreamMode::kEveryN:
      return "every_n";
    case StreamMode::kAll:
      return "all";
    case StreamMode::kSum:
      return "sum";
    case StreamMode::kInput:
      return "input";
    case StreamMode::kConstantInput:
      return "constant_input";
  }
  return "?";
}

std::string spec_text(const TensorSpec& spec) {
  std::string text =
      fmt::format("{}{}", ipu::to_string(spec.dtype), ipu::to_string(std::span<const int64_t>(spec.shape)));
  if (!spec.layout.is_plain()) return fmt::format("{}:{}", text, ipu::to_string(spec.layout));
  if (!spec.is_contiguous()) text += "/" + ipu::to_string(std::span<const int64_t>(spec.strides));
  return text;
}

void print_operands(std::string& out, const IpuProgram& ipu, const std::vector<Operand>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (i > 0) out += ", ";
    if (operand.buffer < 0) {
      out += "-";
      continue;
    }
    bool known = operand.buffer < static_cast<int>(ipu.buffers.size());
    out += fmt::format("b{}{}", operand.buffer, known ? ":" + ipu.buffers[operand.buffer].name : "");
    if (operand.byte_offset != 0) out += fmt::format("+{}", operand.byte_offset);
    out += " " + spec_text(operand.spec);
  }
}

std::string name_of_object(const Program& program, const IpuProgram& ipu, const Instruction& step) {
  auto name = [&](const auto& table) {
    const auto at = static_cast<size_t>(step.object);
    return at < table.size() ? table[at].name : std::to_string(step.object);
  };
  switch (step.opcode) {
    case Opcode::kStreamLoad:
    case Opcode::kStreamPlace:
    case Opcode::kStreamStore:
      return name(program.streams);
    case Opcode::kRemoteLoad:
    case Opcode::kRemoteStore:
      return name(program.remote_buffers);
    case Opcode::kCall:
      return name(ipu.subroutines);
    default:
      return name(program.rings);
  }
}

constexpr size_t kMostPlaces = 4;  // of one op in a message

// Where the ops of a step are in the user's program.
std::string places(const Origin& origin, size_t most) {
  std::string text = origin.location;
  const size_t shown = std::min(origin.joined.size(), most - 1);
  for (size_t i = 0; i < shown; ++i) text += ", " + origin.joined[i];
  if (shown < origin.joined.size()) text += fmt::format(" and {} more", origin.joined.size() - shown);
  return text;
}

void print_instruction(std::string& out, const Program& program, const IpuProgram& ipu,
                       const Instruction& step) {
  if (!step.results.empty()) {
    print_operands(out, ipu, step.results);
    out += " = ";
  }
  out += to_string(step.opcode);
  if (!step.kernel.empty()) out += " " + step.kernel;
  if (step.counter >= 0) out += fmt::format(" counter {}", step.counter);
  if (step.opcode == Opcode::kLoop) out += fmt::format(" trip {}", step.trip);
  if (step.opcode == Opcode::kBranchUnlessCounter) out += fmt::format(" in [{},{})", step.low, step.high);
  if (step.target >= 0) out += fmt::format(" -> {}", step.target);
  if (step.object >= 0) out += " @" + name_of_object(program, ipu, step);
  if (!step.operands.empty()) {
    out += "(";
    print_operands(out, ipu, step.operands);
    out += ")";
  }
  if (step.origin >= 0 && step.origin < static_cast<int>(program.origins.size()) &&
      !program.origins[step.origin].location.empty())
    out += "  // " + places(program.origins[step.origin], SIZE_MAX);
}

}  // namespace

bool defines_external(Opcode opcode) {
  return opcode == Opcode::kStreamLoad || opcode == Opcode::kStreamPlace || opcode == Opcode::kPop;
}

std::string_view to_string(Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
      return "kernel";
    case Opcode::kLoop:
      return "loop";
    case Opcode::kEndLoop:
      return "end_loop";
    case Opcode::kCounter:
      return "counter";
    case Opcode::kBranchIfNot:
      return "branch_if_not";
    case Opcode::kBranchUnlessCounter:
      return "branch_unless_counter";
    case Opcode::kJump:
      return "jump";
    case Opcode::kStreamLoad:
      return "stream_load";
    case Opcode::kStreamPlace:
      return "stream_place";
    case Opcode::kStreamStore:
      return "stream_store";
    case Opcode::kPush:
      return "push";
    case Opcode::kPop:
      return "pop";
    case Opcode::kRelease:
      return "release";
    case Opcode::kCollective:
      return "collective";
    case Opcode::kReplica:
      return "replica";
    case Opcode::kRemoteLoad:
      return "remote_load";
    case Opcode::kRemoteStore:
      return "remote_store";
    case Opcode::kCall:
      return "call";
    case Opcode::kReturn:
      return "return";
  }
  return "?";
}

std::span<const std::string_view> collective_kernels() {
  static constexpr std::string_view kNames[] = {"all_gather", "all_reduce",     "all_to_all",
                                                "broadcast",  "reduce_scatter", "replica_slice"};
  return kNames;
}

ReplicaGrouping group_of(const Instruction& collective) {
  auto number = [&](const char* name, int64_t fallback) {
    const Attribute* value = collective.attributes.find(name);
    if (value == nullptr) return fallback;
    const auto* given = std::get_if<int64_t>(value);
    if (given == nullptr)
      throw Error(ErrorCode::kInvalidProgram, fmt::format("invalid program: {} is no number", name));
    return *given;
  };
  return {number("group_stride", 1), number("group_size", 0), {}};
}

int Program::find_entry(std::string_view name) const {
  const auto at = std::find(entry_points.begin(), entry_points.end(), name);
  return at == entry_points.end() ? -1 : static_cast<int>(at - entry_points.begin());
}

CodeRange code_of(const IpuProgram& ipu, int entry) {
  const int all =
      ipu.subroutines.empty() ? static_cast<int>(ipu.instructions.size()) : ipu.subroutines.front().begin;
  if (ipu.entries.empty()) return {0, all};
  const auto next = static_cast<size_t>(entry) + 1;
  return {ipu.entries.at(static_cast<size_t>(entry)), next < ipu.entries.size() ? ipu.entries[next] : all};
}

CodeRange code_of_subroutine(const IpuProgram& ipu, int subroutine) {
  const auto next = static_cast<size_t>(subroutine) + 1;
  return {ipu.subroutines.at(static_cast<size_t>(subroutine)).begin,
          next < ipu.subroutines.size() ? ipu.subroutines[next].begin
                                        : static_cast<int>(ipu.instructions.size())};
}

std::vector<CodeRange> code_sections(const IpuProgram& ipu) {
  std::vector<CodeRange> sections;
  for (int entry = 0; entry < std::max(1, static_cast<int>(ipu.entries.size())); ++entry)
    sections.push_back(code_of(ipu, entry));
  for (int s = 0; s < static_cast<int>(ipu.subroutines.size()); ++s)
    sections.push_back(code_of_subroutine(ipu, s));
  return sections;
}

int Program::ipu_count() const {
  return static_cast<int>(
      std::count_if(ipus.begin(), ipus.end(), [](const IpuProgram& of) { return of.io_of < 0; }));
}

std::string processor_name(const Program& program, int ipu) {
  const int io_of = program.ipus[static_cast<size_t>(ipu)].io_of;
  return io_of < 0 ? fmt::format("IPU {}", ipu) : fmt::format("I/O tiles of IPU {}", io_of);
}

std::string describe(const Program& program, int ipu, int instruction) {
  std::string text = fmt::format("{}, instruction {}", processor_name(program, ipu), instruction);
  const std::vector<Instruction>& steps = program.ipus[ipu].instructions;
  if (instruction < 0 || instruction >= static_cast<int>(steps.size())) return text;
  const Instruction& step = steps[instruction];
  text += fmt::format(" ({}{})", to_string(step.opcode), step.kernel.empty() ? "" : " " + step.kernel);
  if (step.origin >= 0 && step.origin < static_cast<int>(program.origins.size())) {
    const Origin& origin = program.origins[step.origin];
    if (!origin.op.empty()) text += ", op " + origin.op;
    if (!origin.location.empty()) text += ", from " + places(origin, kMostPlaces);
  }
  return text;
}

int64_t extent_bytes(const TensorSpec& spec) {
  if (!spec.layout.is_plain()) return spec.stored_bytes();
  IPU_CHECK(spec.strides.size() == spec.shape.size(), "a plain spec has one stride per dimension");
  Checked last = 0;
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    if (spec.shape[d] == 0) return 0;
    if (spec.shape[d] < 0 || spec.strides[d] < 0)
      throw Error(ErrorCode::kInvalidProgram,
                  fmt::format("negative size: view of shape {}, strides {}",
                              ipu::to_string(std::span<const int64_t>(spec.shape)),
                              ipu::to_string(std::span<const int64_t>(spec.strides))));
    last += Checked(spec.shape[d] - 1) * spec.strides[d];
  }
  return ((last + 1) * size_in_bytes(spec.dtype)).value();
}

std::string print(const Program& program) {
  std::string out;
  auto add = std::back_inserter(out);
  fmt::format_to(add, "program replicas {}", program.replicas);
  if (program.processes > 1) fmt::format_to(add, " in each of {} processes", program.processes);
  out += "\n";
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const Variable& variable = program.variables[v];
    fmt::format_to(add, "variable {} {} {} {} ipu {}{}", v, variable.name, spec_text(variable.spec),
                   variable.role, variable.ipu, variable.written ? " written" : "");
    if (!variable.groups.is_one_group())
      fmt::format_to(add, " in {} groups of replicas", variable.groups.count(program.job_replicas()));
    if (variable.shards > 1) fmt::format_to(add, " in {} shards", variable.shards);
    if (variable.remote_buffer >= 0)
      fmt::format_to(add, " in entry {} of remote buffer {}", variable.remote_entry, variable.remote_buffer);
    out += "\n";
  }
  for (const Stream& stream : program.streams)
    fmt::format_to(add, "stream {} {} {} host {} ipu {}\n", stream.name, to_string(stream.mode),
                   spec_text(stream.spec), ipu::to_string(stream.host_dtype), stream.ipu);
  for (const RemoteBuffer& buffer : program.remote_buffers)
    fmt::format_to(add, "remote_buffer {} {} x {} ipu {}\n", buffer.name, spec_text(buffer.spec),
                   buffer.entries, buffer.ipu);
  for (const Ring& ring : program.rings)
    fmt::format_to(add, "ring {} {} bytes x {} ipu {} -> {}\n", ring.name, ring.bytes, ring.capacity,
                   ring.from_ipu, ring.to_ipu);
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    const IpuProgram& ipu = program.ipus[i];
    fmt::format_to(add, "ipu {} arena {} peak {}", i, ipu.arena_bytes, ipu.peak_bytes);
    if (ipu.io_of >= 0) fmt::format_to(add, " io tiles of ipu {}", ipu.io_of);
    out += "\n";
    for (size_t b = 0; b < ipu.buffers.size(); ++b) {
      const Buffer& buffer = ipu.buffers[b];
      fmt::format_to(add, "  b{} {} {} {} bytes", b, buffer.name, to_string(buffer.storage), buffer.bytes);
      if (buffer.storage == Storage::kArena || buffer.offset != 0)
        fmt::format_to(add, " at {}", buffer.offset);
      if (buffer.index >= 0) fmt::format_to(add, " of {}", buffer.index);
      out += "\n";
    }
    auto buffers = [&](const std::vector<int>& list) {
      std::string text;
      for (int b : list) text += fmt::format("{}b{}", text.empty() ? "" : ", ", b);
      return text;
    };
    size_t entry = 0, subroutine = 0;
    for (size_t n = 0; n < ipu.instructions.size(); ++n) {
      for (; subroutine < ipu.subroutines.size() && ipu.subroutines[subroutine].begin == static_cast<int>(n);
           ++subroutine) {
        const Subroutine& of = ipu.subroutines[subroutine];
        fmt::format_to(add, "  subroutine {}({}) -> ({}):\n", of.name, buffers(of.inputs),
                       buffers(of.outputs));
      }
      for (; entry < ipu.entries.size() && ipu.entries[entry] == static_cast<int>(n); ++entry)
        if (program.entry_points.size() > 1 && entry < program.entry_points.size())
          fmt::format_to(add, "  entry point {}:\n", program.entry_points[entry]);
      fmt::format_to(add, "  {}: ", n);
      print_instruction(out, program, ipu, ipu.instructions[n]);
      out += "\n";
    }
  }
  return out;
}

}  // namespace ipu::program
