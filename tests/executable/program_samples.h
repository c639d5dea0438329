// Legal programs to begin from: every sample of every operation as a program of its own, random programs on
// several IPUs, and those of a folder of saved executables (make_programs.py), if there is one.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "executable/compile.h"
#include "executable/format/json_fields.h"
#include "ir/replicas.h"
#include "ir/text/text.h"
#include "lowering/lower.h"
#include "passes/pass.h"
#include "program/host_elements.h"
#include "support/error.h"
#include "tests/executable/program_mutator.h"
#include "tests/executable/sample_file.h"
#include "tests/ops/sample_graph.h"
#include "tests/source_tree.h"
#include "tools/cases/text_case.h"

namespace ipu::testing_hostile {

using executable::file_dtype;

// A signature that binds every stream of a program.
inline executable::Signature signature_of(const program::Program& program) {
  executable::Signature signature;
  const std::vector<program::HostElements> elements = program::host_elements(program, 0);
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const program::Stream& stream = program.streams[s];
    const bool is_input = stream.mode == program::StreamMode::kInput;
    const int64_t items = elements[s].count();
    const Shape shape = elements[s].shape(stream.spec.shape);
    if (is_input) {
      signature.inputs.push_back(
          {stream.name, shape, file_dtype(stream.host_dtype), items, {static_cast<int>(s)}});
    } else {
      executable::Signature::Output output;
      output.shape = shape;
      output.dtype = file_dtype(stream.host_dtype);
      output.items = items;
      output.stream = static_cast<int>(s);
      signature.outputs.push_back(output);
    }
  }
  return signature;
}

inline Sample sample_of(std::string name, program::Program program) {
  Sample sample;
  sample.name = std::move(name);
  sample.executable.ir_text = "graph @main() -> () {\n}\n";
  sample.executable.ipus_per_replica = sample.executable.ipus_reserved =
      static_cast<int>(program.ipus.size()) * program.replicas;
  sample.signature = signature_of(program);
  sample.program = std::move(program);
  return sample;
}

// One operation between the host's tensors.
inline Sample sample_of(const ops::OpDef& def, const ops::Sample& from, const std::string& name) {
  ir::Module module;
  ir::Graph* main = module.add_graph("main");
  module.entry_points["main"] = "main";
  ir::Builder b(main);
  b.settings.ipu = 0;
  std::vector<ir::Value*> operands;
  for (const std::optional<ir::Type>& type : from.operands) {
    if (!type) {
      operands.push_back(nullptr);
      continue;
    }
    ir::Stream stream;
    stream.name = "x" + std::to_string(operands.size());
    stream.type = *type;
    stream.host_dtype = type->dtype;
    operands.push_back(b.host_load(module.add_stream(stream)));
  }
  ir::Op* op = ops::build_op(b, def.name, operands, from.attributes);
  for (int i = 0; i < op->result_count(); ++i) {
    ir::Stream stream;
    stream.name = "y" + std::to_string(i);
    stream.type = op->result(i)->type();
    stream.host_dtype = stream.type.dtype;
    stream.direction = ir::StreamDirection::kDeviceToHost;
    b.host_store(module.add_stream(stream), op->result(i));
  }
  passes::run_pipeline(module, {"decompose", "simplify", "fuse-pointwise", "dce"}, {},
                       passes::Verify::kEachPass);
  return sample_of(name, lowering::lower(module, {}));
}

// Names are for people: without them files are shorter and a round is faster.
inline void forget_names(Sample& sample) {
  for (program::IpuProgram& ipu : sample.program.ipus) {
    ipu.live_at_peak.clear();
    for (program::Buffer& buffer : ipu.buffers) buffer.name.clear();
    for (program::Instruction& step : ipu.instructions) step.origin = -1;
  }
  sample.program.origins.clear();
  sample.executable.ir_text.clear();
  sample.executable.statistics.counts.clear();
}

// Programs of several replicas, with remote buffers and variables in shards: the modules of a file of
// tests/ir/needs.
inline void add_needs(const std::string& file, std::vector<Sample>& samples) {
  std::ifstream stream(source_tree() / "tests" / "ir" / "needs" / (file + ".ir"));
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  for (const cases::TextCase& one : cases::split_cases(text, file)) {
    if (one.name == "apart") continue;  // with other values its replicas do not meet
    std::unique_ptr<ir::Module> module = ir::parse(one.text, file);
    executable::CompileOptions options;
    options.replicas = static_cast<int>(ir::replica_count(*module));
    options.any_ipu_count = true;
    samples.push_back(sample_of(
        file + " " + one.name, *executable::compile(*module, target::find_system("pod16"), options).program));
  }
}

// `folder`: nullptr for none. `kinds`: of operations that are in no catalogue, on vectors of four.
inline std::vector<Sample> all_samples(const char* folder, const std::vector<std::string>& kinds = {}) {
  std::vector<Sample> samples;
  for (const std::string& kind : kinds) {
    ops::Sample of;
    of.operands.assign(ops::get_op(kind).operands.size(), ir::Type{DType::kF32, {4}});
    samples.push_back(sample_of(ops::get_op(kind), of, kind));
  }
  if (folder != nullptr) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      executable::Container container = executable::Container::read(file.string());
      Sample sample;
      sample.name = file.filename().string();
      sample.executable = executable::read_executable(container);
      sample.signature = executable::read_signature(container, sample.executable.program.get());
      if (sample.executable.program == nullptr) continue;
      sample.program = *sample.executable.program;
      sample.executable.program = nullptr;
      samples.push_back(std::move(sample));
    }
  }
  for (const ops::OpDef* def : ops::all_ops()) {
    if (def->name == "print_tensor") continue;  // a million times
    for (size_t n = 0; n < def->samples.size(); ++n) {
      try {
        samples.push_back(sample_of(*def, def->samples[n], ops::name_of(*def, n)));
      } catch (const Error&) {
        // Operations that need a graph around them.
      }
    }
  }
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const executable::Executable random = executable::sample_executable(seed);
    samples.push_back(sample_of("random program " + std::to_string(seed), *random.program));
  }
  const std::unique_ptr<ir::Module> overlapped = ir::parse(R"(module {prefetch_depth=2}
    stream @x: f32[4]
    stream @y: f32[4] {direction="device_to_host"}
    entry main = @main
    graph @main() -> () {
      loop() {body=@body, trip=6, carried=0}
      return
    }
    graph @body(%i: i32[]) -> () {
      %x = host_load() {stream=@x | exchange="overlap_loops", tile_set="io", ipu=0} : f32[4]
      %c = io_tile_copy(%x) {to="compute" | exchange="overlap_loops", ipu=0} : f32[4]
      %y = mul(%c, %c) {| ipu=0} : f32[4]
      %d = io_tile_copy(%y) {to="io" | exchange="overlap_inner_loop", tile_set="io", ipu=0} : f32[4]
      host_store(%d) {stream=@y | exchange="overlap_inner_loop", tile_set="io", ipu=0}
      io_barrier() {| ipu=0}
      return
    })");
  samples.push_back(sample_of("overlapped transfers", lowering::lower(*overlapped, {})));
  for (const char* file : {"collectives", "phased_accumulation", "replicated_tensor_sharding",
                           "tensorflow_while", "conditional_across_ipus"})
    add_needs(file, samples);
  for (Sample& sample : samples) forget_names(sample);
  return samples;
}

inline std::vector<std::byte> bytes_of(const Sample& sample, const program::Program& program,
                                       const executable::Signature& signature) {
  executable::Executable executable = sample.executable;
  executable.program = {std::shared_ptr<const program::Program>(), &program};  // the caller's
  executable.ipus_per_replica = std::max(executable.ipus_per_replica, static_cast<int>(program.ipus.size()));
  executable.ipus_reserved = 1 << 20;  // enough for any number of replicas
  executable::ContainerWriter writer;
  executable::add_executable(writer, executable, signature);
  return writer.bytes();
}

}  // namespace ipu::testing_hostile
