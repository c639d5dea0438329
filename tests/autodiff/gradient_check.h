// Gradients against central differences, both in f64 through the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <unordered_map>

#include "autodiff/differentiate.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"

namespace ipu::autodiff {

inline ops::ReferenceTensor random_tensor(const ir::Type& type, std::mt19937& random) {
  ops::ReferenceTensor tensor = ops::ReferenceTensor::zeros(type);
  for (double& value : tensor.values) {
    if (is_floating_point(type.dtype)) value = std::uniform_real_distribution<double>(-1.0, 1.0)(random);
    if (type.dtype == DType::kBool) value = static_cast<double>(random() % 2);
    if (is_integer(type.dtype)) value = static_cast<double>(random() % 3);
  }
  return tensor;
}

// Inputs of the gradient graph from those of the forward graph and the given gradients.
inline std::vector<ops::ReferenceTensor> connect(
    const ir::Graph& graph, const GradInfo& info, const std::vector<ops::ReferenceTensor>& inputs,
    const std::vector<ops::ReferenceTensor>& outputs,
    const std::unordered_map<const ir::Value*, ops::ReferenceTensor>& upstream) {
  std::vector<ops::ReferenceTensor> connected;
  for (const Connection& input : info.expected_inputs) {
    if (input.kind == ConnectionKind::kGradient) {
      connected.push_back(upstream.at(input.forward));
    } else if (input.forward->producer() == nullptr) {
      connected.push_back(inputs[input.forward->index()]);
    } else {
      size_t at = 0;
      while (at < graph.outputs().size() && graph.outputs()[at] != input.forward) ++at;
      if (at == graph.outputs().size()) throw std::logic_error("%" + input.forward->name() + " is no output");
      connected.push_back(outputs[at]);
    }
  }
  return connected;
}

// Differentiates `graph` and compares every gradient with central differences at random inputs.
inline void check_gradients(ir::Module& module, ir::Graph& graph, DifferentiateOptions options = {},
                            unsigned seed = 1) {
  const std::vector<ir::Value*> original_outputs = graph.outputs();
  const GradInfo info = differentiate(graph, options);
  ops::verify(module, ir::Form::kFunctional);
  std::mt19937 random(seed);
  std::vector<ops::ReferenceTensor> inputs;
  for (const ir::Value* input : graph.inputs()) inputs.push_back(random_tensor(input->type(), random));
  std::unordered_map<const ir::Value*, ops::ReferenceTensor> upstream;
  for (const Connection& input : info.expected_inputs)
    if (input.kind == ConnectionKind::kGradient)
      upstream[input.forward] = random_tensor(input.forward->type(), random);

  ops::Interpreter interpreter(module, ops::Arithmetic::kF64);
  // The scalar whose gradient `upstream` is: the sum over provided outputs of upstream times output.
  auto objective = [&](const std::vector<ops::ReferenceTensor>& at) {
    const std::vector<ops::ReferenceTensor> outputs = interpreter.run(graph, at);
    std::unordered_map<const ir::Value*, bool> done;
    double sum = 0.0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto given = upstream.find(graph.outputs()[i]);
      if (given == upstream.end() || done[graph.outputs()[i]]) continue;
      done[graph.outputs()[i]] = true;
      for (size_t k = 0; k < outputs[i].values.size(); ++k)
        sum += outputs[i].values[k] * given->second.values[k];
    }
    return sum;
  };
  const std::vector<ops::ReferenceTensor> outputs = interpreter.run(graph, inputs);
  const std::vector<ops::ReferenceTensor> gradients =
      interpreter.run(*info.graph, connect(graph, info, inputs, outputs, upstream));
  ASSERT_EQ(gradients.size(), info.expected_outputs.size());
  for (size_t g = 0; g < gradients.size(); ++g) {
    const ir::Value* input = info.expected_outputs[g].forward;
    const int number = input->index();
    ASSERT_EQ(gradients[g].type.shape, input->type().shape);
    for (size_t k = 0; k < gradients[g].values.size(); ++k) {
      const double step = 1e-5, middle = inputs[number].values[k];
      inputs[number].values[k] = middle + step;
      const double above = objective(inputs);
      inputs[number].values[k] = middle - step;
      const double below = objective(inputs);
      inputs[number].values[k] = middle;
      const double numeric = (above - below) / (2 * step);
      EXPECT_NEAR(gradients[g].values[k], numeric, 1e-6 * (1.0 + std::abs(numeric)))
          << "gradient of %" << input->name() << " element " << k;
    }
  }
}

}  // namespace ipu::autodiff
