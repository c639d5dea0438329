// Containers of executables for the tests of this room.
#pragma once

#include <random>

#include "executable/file.h"
#include "lowering/lower.h"
#include "passes/pass.h"
#include "support/error.h"
#include "tests/lowering/random_program.h"

namespace ipu::executable {

// A program of random graph number `seed` on up to three IPUs, every second one with subroutines.
inline Executable sample_executable(uint64_t seed) {
  for (;; seed += 1000) {
    auto module = testing_random::RandomProgram(seed, 1 + static_cast<int>(seed % 3), seed % 2 == 0).make();
    try {
      passes::run_pipeline(*module, {"fold-constants", "fuse-pointwise", "insert-ipu-copies", "dce"}, {},
                           passes::Verify::kEachPass);
      Executable executable;
      executable.program = std::make_shared<const program::Program>(lowering::lower(*module, {}));
      executable.ir_text = "graph @main() -> () {\n}\n";
      executable.statistics.counts = {{"instructions", 12}, {"ops folded", 0}};
      executable.ipus_per_replica = static_cast<int>(executable.program->ipus.size());
      executable.ipus_reserved = 4;
      executable.ipu_version = 2;
      executable.compile_seconds = 0.25;
      return executable;
    } catch (const Error&) {
      // Conditions over several IPUs, which the passes refuse, come up now and then.
    }
  }
}

// Binds every stream of a program.
inline Signature sample_signature(const program::Program& program) {
  Signature signature;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const program::Stream& stream = program.streams[s];
    Shape shape = stream.spec.shape;
    if (stream.mode == program::StreamMode::kInput) {
      signature.inputs.push_back({stream.name, shape, "F32", 1, {static_cast<int>(s)}});
    } else {
      Signature::Output output;
      output.shape = shape;
      output.dtype = "F32";
      output.items = 1;
      output.stream = static_cast<int>(s);
      signature.outputs.push_back(output);
    }
  }
  Signature::Output known;
  known.shape = {2};
  known.dtype = "BF16";
  known.constant = 0;
  signature.outputs.push_back(known);
  signature.constants.push_back({"BF16", {2}, std::vector<std::byte>(4, std::byte{7})});
  signature.states.push_back({"fc.weight", {4, 6}, "F32", true, true});
  signature.graph = "0123456789abcdef";
  return signature;
}

inline std::vector<std::byte> sample_bytes(uint64_t seed) {
  Executable executable = sample_executable(seed);
  Signature signature = sample_signature(*executable.program);
  ContainerWriter writer;
  writer.metadata["poptorch_version"] = "1";
  add_executable(writer, executable, signature);
  writer.add_section("frontend.model", "opaque");
  return writer.bytes();
}

inline void read_all(const Container& container) {
  Executable executable = read_executable(container);
  read_signature(container, executable.program.get());
}

// A text of the container with another one in its place, sealed anew: what a checksum cannot find.
inline std::vector<std::byte> resealed(const Container& from, const std::string& section, std::string text) {
  ContainerWriter writer;
  for (const auto& [name, value] : from.metadata())
    if (!name.starts_with("digest:")) writer.metadata[name] = value;
  for (const auto& [name, blob] : from.blobs())
    if (name != section) writer.add(name, blob);
  writer.add_section(section, std::move(text));
  return writer.bytes();
}

}  // namespace ipu::executable
