// Runs a program on the engine and the module it came from on the interpreter, with the same numbers, and
// compares all outputs and variables. Streams must have mode "all".
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/engine.h"
#include "ops/interpreter/interpreter.h"
#include "program/host_elements.h"
#include "program/program.h"

namespace ipu::testing_oracle {

// Repeatable numbers between -4 and 4.
inline ops::ReferenceTensor filled(const ir::Type& type, int seed) {
  ops::ReferenceTensor tensor = ops::ReferenceTensor::zeros(type);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    double value = std::round(std::sin(seed * 7.0 + static_cast<double>(i) * 1.3) * 64.0) / 16.0;
    tensor.values[i] = is_floating_point(type.dtype) ? value
                       : type.dtype == DType::kBool  ? value > 0
                                                     : std::floor(std::abs(value));  // 0 to 4
  }
  return tensor;
}

inline void expect_near(const ops::ReferenceTensor& want, const std::byte* got, const std::string& name,
                        double tolerance) {
  ops::ReferenceTensor have = ops::ReferenceTensor::from_bytes(want.type, got);
  for (size_t i = 0; i < want.values.size(); ++i) {
    if (std::isnan(want.values[i]) && std::isnan(have.values[i])) continue;
    if (want.values[i] == have.values[i]) continue;
    ASSERT_NEAR(have.values[i], want.values[i], tolerance * (1 + std::abs(want.values[i])))
        << name << "[" << i << "]";
  }
}

// Under the thread sanitizer more threads than cores as well.
inline std::vector<int> default_threads() {
#ifdef __SANITIZE_THREAD__
  return {1, 2, 8};
#else
  return {1, 2};
#endif
}

// `scale` shrinks the numbers put in.
inline void compare(const ir::Module& module, const program::Program& program, double tolerance = 1e-5,
                    double scale = 1.0, std::vector<int> threads = default_threads()) {
  SCOPED_TRACE(program::print(program));
  const std::vector<program::HostElements> elements = program::host_elements(program, 0);
  std::map<std::string, int64_t> counts;
  for (size_t s = 0; s < elements.size(); ++s) counts[program.streams[s].name] = elements[s].count();
  ops::Interpreter interpreter(module);
  int seed = 1;
  auto next = [&](const ir::Type& type) {
    ops::ReferenceTensor tensor = filled(type, seed++);
    if (is_floating_point(type.dtype))
      for (double& value : tensor.values) value *= scale;
    ops::round_to(tensor);
    return tensor;
  };
  for (const ir::Variable& variable : module.variables())
    if (variable.initial == nullptr) interpreter.variables[variable.name] = next(variable.type);
  const std::map<std::string, ops::ReferenceTensor> start = interpreter.variables;
  std::map<std::string, std::vector<ConstantPtr>> inputs;
  for (const ir::Stream& stream : module.streams()) {
    if (stream.direction != ir::StreamDirection::kHostToDevice) continue;
    for (int64_t e = 0; e < counts.at(stream.name); ++e) {
      interpreter.streams[stream.name].push_back(next(stream.type));
      if (stream.constant)
        interpreter.streams[stream.name].back().values = {
            0.0078125};  // a learning rate: training must not diverge
      inputs[stream.name].push_back(interpreter.streams[stream.name].back().to_constant());
    }
  }
  interpreter.run_entry_point("main");
  std::vector<std::vector<std::byte>> first_bytes;
  // Outputs are made in place or moved there; the last run is one of shared arrays.
  std::vector<std::pair<int, emulator::Ownership>> runs;
  for (int n : threads) runs.emplace_back(n, emulator::Ownership::kOwned);
  runs.emplace_back(threads.front(), emulator::Ownership::kShared);
  for (const auto& [n, ownership] : runs) {
    SCOPED_TRACE(std::to_string(n) + (ownership == emulator::Ownership::kOwned ? " threads, owned outputs"
                                                                               : " threads, shared outputs"));
    emulator::EngineOptions engine_options;
    engine_options.threads = n;
    emulator::Engine engine(std::make_shared<const program::Program>(program), engine_options);
    std::vector<emulator::StreamBinding> bindings;
    std::vector<std::vector<std::byte>> memory;
    for (const program::Stream& stream : program.streams) {
      const int64_t bytes = stream.spec.stored_bytes(), bound = counts.at(stream.name);
      memory.emplace_back(static_cast<size_t>(bound * bytes) + 64);
      auto at = inputs.find(stream.name);
      if (at != inputs.end()) {
        for (int64_t e = 0; e < bound; ++e)
          std::copy(at->second[e]->bytes.begin(), at->second[e]->bytes.end(),
                    memory.back().begin() + e * bytes);
      }
      bindings.push_back({nullptr, bound, ownership});
    }
    for (size_t s = 0; s < bindings.size(); ++s) bindings[s].data = memory[s].data();
    for (size_t v = 0; v < program.variables.size(); ++v) {
      auto at = start.find(program.variables[v].name);
      if (at != start.end())
        engine.write_variable(static_cast<int>(v), at->second.to_constant()->bytes.data());
    }
    engine.run(bindings);
    for (size_t s = 0; s < program.streams.size(); ++s) {
      const program::Stream& stream = program.streams[s];
      if (stream.is_input()) continue;
      const auto given = static_cast<int64_t>(interpreter.streams[stream.name].size());
      if (elements[s].is_exact())
        ASSERT_EQ(given, elements[s].count()) << stream.name;
      else
        ASSERT_LE(given, elements[s].count()) << stream.name;
      for (int64_t e = 0; e < given; ++e)
        ASSERT_NO_FATAL_FAILURE(expect_near(interpreter.streams[stream.name][e],
                                            memory[s].data() + e * stream.spec.stored_bytes(),
                                            stream.name + " element " + std::to_string(e), tolerance));
    }
    for (size_t v = 0; v < program.variables.size(); ++v) {
      const std::string& name = program.variables[v].name;
      memory.emplace_back(static_cast<size_t>(TensorSpec::plain(program.variables[v].spec.dtype,
                                                                program.variables[v].spec.shape)
                                                  .stored_bytes()) +
                          64);
      engine.read_variable(static_cast<int>(v), memory.back().data());
      auto want = interpreter.variables.find(name);
      if (want == interpreter.variables.end()) continue;
      ASSERT_NO_FATAL_FAILURE(expect_near(want->second, memory.back().data(), name, tolerance));
    }
    if (first_bytes.empty()) first_bytes = memory;
    ASSERT_EQ(memory, first_bytes) << "bits depend on threads";
  }
}

}  // namespace ipu::testing_oracle
