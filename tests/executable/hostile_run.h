// A file as an executor meets it: read, checked, its tensors bound as its signature says, run. Every host
// tensor lies between guard pages and inputs are read only, so that a step that leaves what it was given ends
// the process. The only other outcomes are an Error and a run that ends.
#pragma once

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "emulator/engine.h"
#include "executable/file.h"
#include "program/host_elements.h"
#include "support/error.h"
#include "tests/executable/guarded_memory.h"

namespace ipu::testing_hostile {

enum class Outcome {
  kRefused,   // by the reader
  kTooLarge,  // accepted, but more memory than a test should take
  kRan,
  kFailed,  // the engine, or a step, said why it cannot go on
  kStopped  // took too long
};

struct Verdict {
  Outcome outcome = Outcome::kRefused;
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // empty when it ran
};

// Small enough that running it is no test of the host's memory.
inline bool is_small(const program::Program& program, const executable::Signature& signature) {
  const double limit = int64_t{64} << 20;
  double bytes = 0;
  for (const program::IpuProgram& ipu : program.ipus)
    bytes += static_cast<double>(ipu.arena_bytes) * program.replicas;
  for (const program::Variable& v : program.variables)
    bytes += static_cast<double>(v.spec.stored_bytes()) * program.replicas;
  for (const program::RemoteBuffer& buffer : program.remote_buffers)
    bytes += static_cast<double>(buffer.spec.stored_bytes() + 64) * static_cast<double>(buffer.entries) *
             program.replicas;
  for (const program::Ring& q : program.rings)
    bytes += static_cast<double>(q.bytes + 64) * static_cast<double>(q.capacity) * program.replicas;
  auto tensor = [&](const Shape& shape, const std::string& dtype) {
    double size = static_cast<double>(executable::file_dtype_bytes(dtype));
    for (int64_t extent : shape) size *= static_cast<double>(extent);
    bytes += size;
  };
  for (const auto& input : signature.inputs) tensor(input.shape, input.dtype);
  for (const auto& output : signature.outputs) tensor(output.shape, output.dtype);
  for (const auto& mutated : signature.mutated) tensor(mutated.output.shape, mutated.output.dtype);
  for (size_t e = 0; e < program.entry_points.size(); ++e) {
    const std::vector<program::HostElements> elements = program::host_elements(program, static_cast<int>(e));
    for (size_t s = 0; s < elements.size(); ++s)  // times of transfers, and anchored tensors
      bytes += static_cast<double>(elements[s].count()) *
               (16 + static_cast<double>(program.streams[s].spec.stored_bytes()));
  }
  return bytes <= limit && program.replicas <= 16;
}

class HostileRun {
 public:
  // Decides the contents of tensors from here on.
  void reseed(uint64_t seed) { random_.seed(seed); }

  // `milliseconds`: after which a run is stopped. `threads` of the engine.
  Verdict operator()(std::vector<std::byte> file, int threads = 1, int milliseconds = 200) {
    Verdict verdict;
    try {
      executable::Container container = executable::Container::parse(std::move(file), "FILE");
      executable::Executable executable = executable::read_executable(container);
      executable::Signature signature = executable::read_signature(container, executable.program.get());
      if (executable.program == nullptr) return {Outcome::kRan, {}, {}};
      if (!is_small(*executable.program, signature)) return {Outcome::kTooLarge, {}, {}};
      verdict.outcome = Outcome::kFailed;
      run(executable.program, signature, threads, milliseconds);
      verdict.outcome = Outcome::kRan;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInterrupted) verdict.outcome = Outcome::kStopped;
      verdict.code = error.code();
      verdict.message = error.message();
    } catch (const std::exception& error) {
      verdict.message = std::string("something that is no Error: ") + error.what();
    }
    return verdict;
  }

 private:
  // As Executor does, which is the only caller of an engine that runs files.
  void run(const std::shared_ptr<const program::Program>& program, const executable::Signature& signature,
           int threads, int milliseconds) {
    using clock = std::chrono::steady_clock;
    memory_.reset();
    emulator::EngineOptions options;
    options.threads = threads;
    auto end = clock::now() + std::chrono::milliseconds(milliseconds);
    options.interrupted = [&end] { return clock::now() > end; };
    emulator::Engine engine(program, options);

    for (size_t i = 0; i < program->variables.size(); ++i) {
      const program::Variable& v = program->variables[i];
      if (v.constant >= 0 && random_() % 4 != 0) continue;
      const TensorSpec plain = v.plain();
      GuardedTensor value = memory_.take(plain.stored_bytes());
      fill(value, v.spec.dtype);
      engine.write_variable(static_cast<int>(i), value.read_only);
    }
    std::vector<emulator::StreamBinding> bindings(program->streams.size());
    for (const auto& input : signature.inputs) {
      const int64_t width = input.dtype == "BF16" ? 4 : executable::file_dtype_bytes(input.dtype);
      GuardedTensor tensor = memory_.take(element_count(input.shape) * width, random_() % 8 == 0);
      if (!input.streams.empty()) fill(tensor, program->streams[input.streams[0]].host_dtype);
      for (int s : input.streams) bindings[s] = {tensor.read_only, input.items};
    }
    auto bind_output = [&](int stream, int64_t bytes, int64_t items) {
      GuardedTensor tensor = memory_.take(bytes, random_() % 8 == 0);
      std::memset(tensor.fill, 0xA5, static_cast<size_t>(bytes));
      bindings[stream] = {tensor.fill, items};
    };
    auto bind = [&](const executable::Signature::Output& output) {
      bind_output(output.stream, element_count(output.shape) * executable::file_dtype_bytes(output.dtype),
                  output.items);
    };
    for (const auto& output : signature.outputs)
      if (output.stream >= 0 && output.same_as < 0) bind(output);
    for (const auto& mutated : signature.mutated) bind(mutated.output);
    for (const auto& hyper : signature.hypers) {
      GuardedTensor value = memory_.take(4);
      fill(value, DType::kF32);
      bindings[hyper.stream] = {value.read_only, 1};
    }
    const std::vector<program::HostElements> elements = program::host_elements(*program, 0);
    for (size_t s = 0; s < program->streams.size(); ++s) {
      const program::Stream& stream = program->streams[s];
      if (stream.name == "rng.seed") {
        GuardedTensor seed = memory_.take(8);
        fill(seed, DType::kU32);
        bindings[s] = {seed.read_only, 1};
      } else if (bindings[s].data == nullptr && stream.name.starts_with("anchor.")) {
        const int64_t items = elements[s].count();
        bind_output(static_cast<int>(s), items * size_in_bytes(stream.host_dtype, stream.spec.shape), items);
      }
    }
    for (int runs = 0; runs < 2; ++runs) {
      engine.run(bindings);
      for (size_t s = 0; s < program->streams.size(); ++s) engine.stream_times(static_cast<int>(s));
      if (random_() % 4 != 0) break;
    }
    for (int entry = 1; entry < static_cast<int>(program->entry_points.size()); ++entry) run(engine, entry);
    for (size_t i = 0; i < program->variables.size(); ++i) {
      const program::Variable& v = program->variables[i];
      if (!v.written && random_() % 4 != 0) continue;
      GuardedTensor value = memory_.take(v.plain().stored_bytes());
      engine.read_variable(static_cast<int>(i), value.fill,
                           static_cast<int>(random_() % static_cast<uint64_t>(program->replicas)));
    }
  }

  // An entry point that no signature knows.
  void run(emulator::Engine& engine, int entry) {
    std::vector<emulator::StreamBinding> arrays;
    const std::span<const program::HostElements> elements = engine.elements(entry);
    for (size_t s = 0; s < elements.size(); ++s) {
      const program::Stream& stream = engine.program().streams[s];
      GuardedTensor tensor =
          memory_.take(elements[s].count() * size_in_bytes(stream.host_dtype, stream.spec.shape));
      fill(tensor, stream.host_dtype);
      arrays.push_back({stream.is_input() ? tensor.read_only : tensor.fill, elements[s].count()});
    }
    engine.run(arrays, entry);
  }

  // Mostly ordinary values; sometimes those that kernels fear: NaN, infinities, indices out of range.
  void fill(const GuardedTensor& tensor, DType dtype) {
    const int64_t count = tensor.bytes / size_in_bytes(dtype);
    const uint64_t kind = random_() % 4;
    for (int64_t i = 0; i < count; ++i) {
      std::byte* to = tensor.fill + i * size_in_bytes(dtype);
      const uint64_t bits = random_();
      const bool wild = kind == 0 && bits % 5 == 0;
      if (dtype == DType::kF32) {
        float value = wild ? kWild[bits / 5 % std::size(kWild)] : static_cast<float>(bits % 4096) / 1024 - 2;
        std::memcpy(to, &value, sizeof value);
      } else if (dtype == DType::kF64) {
        double value = wild ? 1e300 : static_cast<double>(bits % 4096) / 1024 - 2;
        std::memcpy(to, &value, sizeof value);
      } else if (dtype == DType::kF16) {
        auto value = static_cast<uint16_t>(wild ? bits >> 16 : 0x3800 + bits % 2048);
        std::memcpy(to, &value, sizeof value);
      } else if (dtype == DType::kBool) {
        *to = static_cast<std::byte>(wild ? bits >> 8 : bits & 1);
      } else {
        auto value = static_cast<int64_t>(wild ? bits : bits % (kind == 1 ? 3 : 7));
        if (wild && bits % 2 == 0) value = static_cast<int64_t>(bits % 64) - 32;
        std::memcpy(to, &value, static_cast<size_t>(size_in_bytes(dtype)));
      }
    }
  }
  static constexpr float kWild[] = {NAN, INFINITY, -INFINITY, 3e38F, -3e38F, 1e-40F, -0.0F, 1e10F};

  std::mt19937_64 random_;
  GuardedMemory memory_;
};

}  // namespace ipu::testing_hostile
