// A sample of an op as a graph of its own, with deterministic operand values: what the conformance tests run.
#pragma once

#include <cctype>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/definition/build.h"
#include "ops/definition/gradient_builder.h"
#include "ops/definition/op_def.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::ops {

// Name of an op as GoogleTest allows it.
inline std::string test_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

struct SampleGraph {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>();
  ir::Graph* graph = nullptr;
  ir::Op* op = nullptr;
  std::vector<ir::Value*> operands;  // nullptr: absent
};

inline SampleGraph build_sample(const OpDef& def, const Sample& sample) {
  SampleGraph s;
  s.graph = s.module->add_graph("sample");
  for (const std::optional<ir::Type>& type : sample.operands)
    s.operands.push_back(type ? s.graph->add_input(*type, "x") : nullptr);
  ir::Builder builder(s.graph);
  s.op = build_op(builder, def.name, s.operands, sample.attributes);
  for (int i = 0; i < s.op->result_count(); ++i) s.graph->append_output(s.op->result(i));
  return s;
}

inline ReferenceTensor random_tensor(const ir::Type& type, double low, double high, std::mt19937_64& random) {
  ReferenceTensor tensor = ReferenceTensor::zeros(type);
  std::uniform_real_distribution<double> real(low, high);
  for (double& value : tensor.values) {
    if (is_floating_point(type.dtype)) {
      value = real(random);
    } else if (type.dtype == DType::kBool) {
      const bool drawn = (random() & 1) != 0;  // unless the sample says which one
      value = (low == high ? low != 0.0 : drawn) ? 1.0 : 0.0;
    } else {
      const auto first = static_cast<int64_t>(std::ceil(low)), last = static_cast<int64_t>(std::floor(high));
      value = static_cast<double>(std::uniform_int_distribution<int64_t>(first, last)(random));
    }
  }
  return tensor;
}

// Values of the operands that are present, in order: the inputs of the sample's graph.
inline std::vector<ReferenceTensor> sample_inputs(const Sample& sample, uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  std::vector<ReferenceTensor> inputs;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    if (!sample.operands[i]) continue;
    auto range = sample.range.find(static_cast<int>(i));
    const double low = range == sample.range.end() ? sample.low : range->second.first;
    const double high = range == sample.range.end() ? sample.high : range->second.second;
    inputs.push_back(random_tensor(*sample.operands[i], low, high, random));
  }
  return inputs;
}

inline std::string name_of(const OpDef& def, size_t sample) {
  return def.name + " sample " + std::to_string(sample);
}

// "kernel: <id>" for every kernel an op asks for that nobody registered; in kernel_conformance_test.cc.
std::vector<std::string> missing_kernels();

}  // namespace ipu::ops
