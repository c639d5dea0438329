// Short words for programs in tests.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/program.h"

namespace ipu::popxl {

inline TensorInfo f32(Shape shape) { return {DataType::kFloat, std::move(shape), {}}; }

inline Tensor& add_input(Graph& graph, const std::string& name, TensorInfo info) {
  Tensor& tensor = graph.create_tensor(graph.unique_id(name), std::move(info), TensorType::kActGrad);
  graph.inputs.push_back(&tensor);
  return tensor;
}

inline Tensor& add_variable(Program& program, const std::string& name, TensorInfo info) {
  return program.main().create_tensor(program.main().unique_id(name), std::move(info), TensorType::kVariable);
}

// An op with one output, its type inferred.
inline Op& add_op(Graph& graph, const std::string& type, std::initializer_list<Tensor*> inputs,
                  Attributes attributes = {}) {
  const OpKind& kind = kind_of(type);
  Op& op = graph.create_op(kind, {kind.domain, kind.type, kind.version}, std::move(attributes), {});
  int i = 0;
  for (Tensor* input : inputs) op.connect_input(i++, *input);
  op.create_output(0, graph.unique_id(type + "_out"));
  op.setup();
  return op;
}

inline Tensor& add(Graph& graph, const std::string& type, std::initializer_list<Tensor*> inputs,
                   Attributes attributes = {}) {
  return *add_op(graph, type, inputs, std::move(attributes)).output(0);
}

inline Op& add_call(Graph& graph, Graph& callee, std::initializer_list<Tensor*> inputs) {
  const OpKind& kind = kind_of("Call");
  Op& op = graph.create_op(kind, {kind.domain, kind.type, kind.version}, {}, {});
  op.callees = std::vector<Graph*>{&callee};
  int i = 0;
  for (Tensor* input : inputs) op.connect_input(i++, *input);
  for (size_t o = 0; o < callee.outputs.size(); ++o)
    op.create_output(static_cast<int>(o), graph.unique_id(std::string(callee.outputs[o]->name())));
  op.setup();
  return op;
}

}  // namespace ipu::popxl
