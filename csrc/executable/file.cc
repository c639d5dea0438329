#include "executable/file.h"

#include <fmt/core.h>

#include "emulator/proof/prove.h"
#include "executable/check_kernels.h"
#include "executable/format/json_fields.h"
#include "executable/format/json_text.h"
#include "executable/format/program_fields.h"
#include "executable/format/signature_fields.h"
#include "kernels/kernel_table.h"
#include "program/host_elements.h"
#include "support/foreign_text.h"

namespace ipu::executable {
namespace {

constexpr int kMaxJsonDepth = 24;
constexpr int64_t kMaxSize = int64_t{1} << 46;  // bytes; below it sums of sizes do not overflow
constexpr int64_t kMaxCount = int64_t{1} << 31;
constexpr int64_t kMaxPlanBits = int64_t{1} << 30;  // check_plan keeps a bit per buffer and basic block
constexpr int kMaxReplicas = 4096;
// Places where elements are counted: entry point, stream, replica; or memories: variable, replica.
constexpr double kMaxCounted = 1 << 24;

// The scalars of an Executable; program and text have sections of their own.
struct Summary {
  std::map<std::string, int64_t> statistics;
  int ipus_per_replica = 1, ipus_reserved = 1;
  double compile_seconds = 0.0;
  bool has_program = true;
  int ipu_version = 0;
};

}  // namespace
}  // namespace ipu::executable

namespace ipu {
IPU_FIELDS(executable::Summary, field("statistics", &T::statistics),
           field("ipus_per_replica", &T::ipus_per_replica), field("ipus_reserved", &T::ipus_reserved),
           field("compile_seconds", &T::compile_seconds), field("has_program", &T::has_program),
           field("ipu_version", &T::ipu_version));
IPU_FIELDS(report::IpuMemory, field("ipu", &T::ipu), field("variables", &T::variables),
           field("constants", &T::constants), field("rings", &T::rings), field("values", &T::values));
}  // namespace ipu

namespace ipu::executable {

namespace {

// Ranges that check_program and the engine take for granted: they add and multiply sizes.
void check_ranges(const Container& container, const program::Program& program) {
  auto require = [&](bool condition, const std::string& what) {
    if (!condition) container.corrupt("program: " + what);
  };
  auto size = [](int64_t n) { return n >= 0 && n <= kMaxSize; };
  auto count = [](int64_t n) { return n >= 0 && n <= kMaxCount; };
  require(program.replicas >= 1 && program.processes >= 1 && program.replicas <= kMaxReplicas &&
              program.processes <= kMaxReplicas && program.job_replicas() <= kMaxReplicas,
          "the number of replicas is out of range");
  require(1.0 * static_cast<double>(program.entry_points.size()) *
                  static_cast<double>(program.streams.size()) * program.replicas <=
              kMaxCounted,
          fmt::format("{} entry points with {} streams for {} replicas are too many",
                      program.entry_points.size(), program.streams.size(), program.replicas));
  const size_t memories = program.variables.size() + program.remote_buffers.size() + program.rings.size();
  require(1.0 * static_cast<double>(memories) * program.replicas <= kMaxCounted,
          fmt::format("{} variables, remote buffers and rings for {} replicas are too many", memories,
                      program.replicas));
  require(!program.ipus.empty(), "it has no IPU");
  require(1.0 * static_cast<double>(program.ipus.size()) * program.replicas <= kMaxCounted,
          fmt::format("programs for {} IPUs and I/O tiles of {} replicas are too many", program.ipus.size(),
                      program.replicas));
  auto require_groups = [&](const ReplicaGrouping& grouping, int64_t replicas, const std::string& of_what) {
    const std::string problem = grouping.problem(replicas);
    require(problem.empty(), fmt::format("the grouping {} {}", of_what, problem));
  };
  require_groups(program.input_groups, program.replicas, "of replicas with equal inputs");
  for (const program::Variable& variable : program.variables)
    require_groups(variable.groups, program.job_replicas(), "of variable " + variable.name);
  for (const program::Ring& ring : program.rings)
    require(size(ring.bytes) && count(ring.capacity) && ring.bytes * 1.0 * ring.capacity <= kMaxSize,
            fmt::format("the size of ring {} is out of range", ring.name));
  for (const program::Stream& stream : program.streams)
    require(count(stream.period) && count(stream.block),
            fmt::format("the period of stream {} is out of range", stream.name));
  for (const ConstantPtr& constant : program.constants) require(constant != nullptr, "a constant is missing");
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    const program::IpuProgram& ipu = program.ipus[i];
    const std::string where = fmt::format("IPU {}: ", i);
    require(size(ipu.arena_bytes) && size(ipu.peak_bytes), where + "the size of the arena is out of range");
    require(ipu.counters >= 0 && static_cast<size_t>(ipu.counters) <= ipu.instructions.size(),
            where + "more loop counters than instructions");
    for (const program::Buffer& buffer : ipu.buffers)
      require(size(buffer.bytes) && size(buffer.offset),
              fmt::format("{}the size of buffer {} is out of range", where, buffer.name));
    for (int buffer : ipu.live_at_peak)
      require(buffer >= 0 && static_cast<size_t>(buffer) < ipu.buffers.size(),
              where + "the list of buffers at the peak names one that is not there");
    int64_t blocks = 1 + std::ssize(ipu.entries) + std::ssize(ipu.subroutines), collectives = 0;
    for (const program::Instruction& step : ipu.instructions) {
      collectives += step.opcode == program::Opcode::kCollective;
      blocks += step.opcode >= program::Opcode::kLoop && step.opcode <= program::Opcode::kJump;
      require(step.origin >= -1, where + "an origin is out of range");
      for (const auto* list : {&step.operands, &step.results})
        for (const program::Operand& operand : *list)
          require(operand.byte_offset >= 0 && operand.byte_offset <= kMaxSize,
                  where + "the offset of an operand is out of range");
      const bool has_kernel =
          step.opcode == program::Opcode::kKernel || step.opcode == program::Opcode::kCollective;
      if (has_kernel && !step.kernel.empty() && kernels::find_kernel(step.kernel) == nullptr)
        throw Error(ErrorCode::kFileVersion,
                    fmt::format("file version: {} needs the kernel '{}', which this version does not have.\n"
                                "  try:      compile and save again with this version.",
                                container.source(), quotation(step.kernel)));
    }
    require(blocks * static_cast<int64_t>(ipu.buffers.size()) <= kMaxPlanBits,
            where + "too many branches for its number of buffers");
    require(ipu.subroutines.empty() || static_cast<double>(program.entry_points.size()) *
                                               static_cast<double>(ipu.instructions.size()) <=
                                           static_cast<double>(kMaxPlanBits),
            where + "too many entry points for its subroutines");
    require(1.0 * static_cast<double>(collectives * program.job_replicas()) <= kMaxCounted,
            where + "too many collectives for its number of replicas");
  }
}

template <class T>
T read_section(const Container& container, const std::string& section) {
  nlohmann::json json;
  try {
    json = parse_json(container.section(section), kMaxJsonDepth);
  } catch (const Error& error) {
    container.corrupt(fmt::format("{}: {}", section, error.message()));
  }
  T result{};
  FieldReader(container, section).read(json, result);
  return result;
}

// What the machine form says of tile memory; nothing where an earlier version wrote the file.
std::vector<report::IpuMemory> read_memory(const Container& container) {
  if (!container.has("memory")) return {};
  auto memory = read_section<std::vector<report::IpuMemory>>(container, "memory");
  for (const report::IpuMemory& of : memory)
    for (const int64_t number : {int64_t{of.ipu}, of.variables, of.constants, of.rings, of.values})
      if (number < 0 || number > kMaxSize) container.corrupt("memory: a size is out of range");
  return memory;
}

// The engine's own arithmetic: bytes of `items` elements of a stream in host memory, as many as a run moves.
bool fits(int64_t items, const program::HostElements& elements, const program::Stream& stream,
          const Shape& shape, const std::string& dtype) {
  // bfloat16 crosses the edge as float32.
  const int64_t width = dtype == "BF16" ? 4 : file_dtype_bytes(dtype);
  if (width != size_in_bytes(stream.host_dtype) || items < 0 || items > kMaxCount ||
      items != elements.count())
    return false;
  double whole = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return false;
    whole *= static_cast<double>(extent);
  }
  if (whole > static_cast<double>(kMaxSize)) return false;
  return element_count(shape) == items * element_count(stream.spec.shape);
}

}  // namespace

void add_executable(ContainerWriter& writer, const Executable& executable, const Signature& signature) {
  FieldWriter fields(writer);
  Summary summary{executable.statistics.counts, executable.ipus_per_replica,   executable.ipus_reserved,
                  executable.compile_seconds,   executable.program != nullptr, executable.ipu_version};
  writer.add_section("executable", fields.value(summary).dump());
  if (executable.program != nullptr) writer.add_section("program", fields.value(*executable.program).dump());
  writer.add_section("signature", fields.value(signature).dump());
  writer.add_section("ir", executable.ir_text);
  if (executable.machine_form != nullptr) {
    writer.add_section("machine", executable.machine_form->text());
    writer.add_section("memory", fields.value(executable.machine_form->memory()).dump());
  }
}

Executable read_executable(const Container& container) {
  ErrorContext activity("reading executable " + container.source());
  auto summary = read_section<Summary>(container, "executable");
  Executable result;
  result.statistics.counts = std::move(summary.statistics);
  result.ipus_per_replica = summary.ipus_per_replica;
  result.ipus_reserved = summary.ipus_reserved;
  result.compile_seconds = summary.compile_seconds;
  result.ipu_version = summary.ipu_version;
  result.ir_text = container.section("ir");
  if (!is_utf8(result.ir_text)) container.corrupt("ir: not a text in UTF-8");
  if (container.has("machine")) {
    std::string text(container.section("machine"));
    if (!is_utf8(text)) container.corrupt("machine: not a text in UTF-8");
    result.machine_form =
        std::make_shared<const MachineForm>(std::move(text), read_memory(container), container.source());
  }
  if (!summary.has_program) return result;
  auto program = read_section<program::Program>(container, "program");
  check_ranges(container, program);
  try {
    program::check_program(program);
    for (const program::IpuProgram& ipu : program.ipus) program::check_plan(ipu);
    check_kernels(program);
    emulator::prove_program(program);
  } catch (const Error& error) {
    container.corrupt("program: " + error.message());
  }
  if (result.ipus_per_replica < program.ipu_count() || result.ipus_per_replica > kMaxReplicas ||
      result.ipus_reserved < result.ipus_per_replica * program.replicas)
    container.corrupt("executable: fewer IPUs than the program needs");
  result.program = std::make_shared<const program::Program>(std::move(program));
  return result;
}

Signature read_signature(const Container& container, const program::Program* program) {
  auto signature = read_section<Signature>(container, "signature");
  check_signature(container, signature, program);
  return signature;
}

void check_signature(const Container& container, const Signature& signature,
                     const program::Program* program) {
  auto require = [&](bool condition, const std::string& what) {
    if (!condition) container.corrupt("signature: " + what);
  };
  const size_t streams = program == nullptr ? 0 : program->streams.size();
  std::vector<char> bound(streams, 0);
  auto bind = [&](int stream, const std::string& what) -> const program::Stream& {
    require(stream >= 0 && static_cast<size_t>(stream) < streams, what + " names a stream that is not there");
    require(bound[stream]++ == 0, what + " names a stream that is taken");
    return program->streams[stream];
  };
  const std::vector<program::HostElements> elements =
      program == nullptr ? std::vector<program::HostElements>() : program::host_elements(*program, 0);
  auto check_output = [&](const Signature::Output& output, const std::string& what) {
    const program::Stream& stream = bind(output.stream, what);
    require(stream.mode != program::StreamMode::kInput && stream.mode != program::StreamMode::kConstantInput,
            what + " names an input stream");
    require(fits(output.items, elements[output.stream], stream, output.shape, output.dtype) &&
                output.dtype != "BF16",
            what + " has another size than its stream");
  };
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const Signature::Input& input = signature.inputs[i];
    const std::string what = fmt::format("input {}", i);
    require(file_dtype_bytes(input.dtype) > 0, what + " has an unknown type");
    for (int64_t extent : input.shape)
      require(extent >= 0 && extent <= kMaxSize, what + " has an extent out of range");
    for (int s : input.streams) {
      const program::Stream& stream = bind(s, what);
      require(stream.mode == program::StreamMode::kInput, what + " names no input stream");
      require(fits(input.items, elements[s], stream, input.shape, input.dtype),
              what + " has another size than its stream");
    }
  }
  for (size_t k = 0; k < signature.outputs.size(); ++k) {
    const Signature::Output& output = signature.outputs[k];
    const std::string what = fmt::format("output {}", k);
    if (output.same_as >= 0) {
      require(static_cast<size_t>(output.same_as) < k && signature.outputs[output.same_as].same_as < 0 &&
                  signature.outputs[output.same_as].stream == output.stream && output.stream >= 0,
              what + " repeats an output that is not there");
    } else if (output.stream >= 0) {
      check_output(output, what);
    } else {
      require(output.constant >= 0 && static_cast<size_t>(output.constant) < signature.constants.size(),
              what + " has neither a stream nor a value");
    }
  }
  for (const Signature::Mutated& mutated : signature.mutated) {
    require(mutated.input >= 0 && static_cast<size_t>(mutated.input) < signature.inputs.size(),
            "a written input is not there");
    check_output(mutated.output, fmt::format("written input {}", mutated.input));
    for (const int also : mutated.also)
      require(also >= 0 && static_cast<size_t>(also) < signature.inputs.size(),
              "a written input is the same as one that does not exist");
  }
  for (const Signature::Moved& moved : signature.moved) {
    require(moved.input >= 0 && static_cast<size_t>(moved.input) < signature.inputs.size(),
            "an input of other dimensions is not there");
    Shape left = signature.inputs[moved.input].shape;  // extents that are to be found again
    for (const Signature::Mutated& mutated : signature.mutated)
      if (mutated.input == moved.input) left = mutated.output.shape;
    require(moved.dims.size() <= 64, "an input gets too many dimensions");
    for (const int64_t dim : moved.dims) {
      if (dim == -1) continue;
      require(dim >= 0 && static_cast<size_t>(dim) < left.size() && left[dim] != -1,
              "an input gets a dimension that is not there");
      left[dim] = -1;
    }
    require(std::all_of(left.begin(), left.end(), [](int64_t extent) { return extent == 1 || extent == -1; }),
            "an input loses a dimension");
  }
  std::vector<std::map<std::string, double>> streamed;
  try {
    optimizers::check_spec(signature.optimizer);
    for (size_t g = 0; g < signature.optimizer.groups.size(); ++g)
      streamed.push_back(optimizers::streamed_hypers(signature.optimizer, static_cast<int>(g)));
  } catch (const Error& error) {
    container.corrupt("signature: " + error.message());
  }
  for (const Signature::HyperStream& hyper : signature.hypers) {
    const program::Stream& stream = bind(hyper.stream, "hyper-parameter " + hyper.name);
    require(stream.mode == program::StreamMode::kConstantInput && stream.host_dtype == DType::kF32 &&
                stream.spec.shape.empty(),
            fmt::format("hyper-parameter {} has a stream of another kind", hyper.name));
    require(hyper.group == -1 || (hyper.group >= 0 && static_cast<size_t>(hyper.group) < streamed.size() &&
                                  streamed[hyper.group].contains(hyper.name)),
            fmt::format("hyper-parameter {} belongs to no group", hyper.name));
  }
  // The executor binds the seed of a run by the stream's name (frontends/common/step_builder.h).
  for (size_t s = 0; s < streams; ++s) {
    const program::Stream& stream = program->streams[s];
    if (stream.name != "rng.seed") continue;
    require(stream.mode == program::StreamMode::kConstantInput && stream.host_dtype == DType::kU32 &&
                stream.spec == TensorSpec::plain(DType::kU32, {2}),
            "stream rng.seed is no seed");
    bound[s] = 1;
  }
  // And anchored tensors likewise (frontends/torch/executor/anchors.h).
  for (size_t s = 0; s < streams; ++s) {
    const program::Stream& stream = program->streams[s];
    if (bound[s] != 0 || !stream.name.starts_with("anchor.")) continue;
    require(stream.mode != program::StreamMode::kInput && stream.mode != program::StreamMode::kConstantInput,
            fmt::format("stream {} gives nothing to the host", stream.name));
    bound[s] = 1;
  }
  for (size_t s = 0; s < streams; ++s)
    require(bound[s] != 0 || !elements[s].is_used(),
            fmt::format("stream {} is bound to nothing", program->streams[s].name));
}

}  // namespace ipu::executable
