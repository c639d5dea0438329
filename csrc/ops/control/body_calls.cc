#include "ops/control/body_calls.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"

namespace ipu::ops {

ir::Builder inside(NodeImportCall& call, ir::Graph* graph) {
  ir::Builder builder(graph);
  builder.settings = call.builder().settings;
  builder.location = call.builder().location;
  builder.origin = call.builder().origin;
  return builder;
}

void wrong_graph(const std::string& what) { throw Error(ErrorCode::kTypeMismatch, what + "."); }

void check_result_count(NodeImportCall& call, size_t given) {
  if (static_cast<size_t>(call.result_count()) != given)
    wrong_graph(fmt::format("wrong number of outputs: {} has {}, and its graph gives {}", call.described(),
                            call.result_count(), given));
}

namespace {

size_t declared_outputs(const ImportedBody& body) {
  return body.graph->outputs().size() - body.written.size();
}

// Index of the new value of `name` among the outputs of the body; -1: it does not assign it.
int written_output(const ImportedBody& body, const std::string& name) {
  for (size_t i = 0; i < body.written.size(); ++i)
    if (body.names[static_cast<size_t>(body.written[i])] == name)
      return static_cast<int>(declared_outputs(body) + i);
  return -1;
}

size_t place_of(const GraphValues& values, const ir::Value* value) {
  return static_cast<size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

// What a branch assigns: `body.captured[captured]`.
struct Assigned {
  const ImportedBody* body;
  int captured;
  const std::string& name() const { return body->names[static_cast<size_t>(captured)]; }
  ir::Value* before() const { return body->captured[static_cast<size_t>(captured)]; }
};

}  // namespace

GraphValues branch(NodeImportCall& call, ir::Value* condition, const ImportedBody& then,
                   const ImportedBody& otherwise) {
  const size_t declared = declared_outputs(then);
  check_result_count(call, declared);
  std::vector<Assigned> assigned;
  for (const int i : then.written) assigned.push_back({&then, i});
  for (const int i : otherwise.written)
    if (const Assigned more{&otherwise, i}; written_output(then, more.name()) < 0) assigned.push_back(more);
  // Both take what either reads.
  GraphValues operands = then.captured;
  for (ir::Value* value : otherwise.captured)
    if (place_of(operands, value) == operands.size()) operands.push_back(value);
  ir::Graph* graphs[2];
  for (const bool is_then : {true, false}) {
    const ImportedBody& body = is_then ? then : otherwise;
    ir::Graph* graph = graphs[is_then ? 0 : 1] =
        call.builder().module()->add_graph(body.graph->name() + ".branch");
    GraphValues inputs, handed;
    for (const ir::Value* value : operands) inputs.push_back(graph->add_input(value->type(), value->name()));
    for (const ir::Value* value : body.captured) handed.push_back(inputs[place_of(operands, value)]);
    const GraphValues made = inside(call, graph).call(body.graph, handed);
    for (size_t i = 0; i < declared; ++i) graph->append_output(made[i]);
    for (const Assigned& one : assigned) {
      const int output = written_output(body, one.name());
      graph->append_output(output < 0 ? inputs[place_of(operands, one.before())]
                                      : made[static_cast<size_t>(output)]);
    }
  }
  GraphValues results = call.builder().branch(condition, graphs[0], graphs[1], operands);
  for (size_t i = 0; i < assigned.size(); ++i)
    call.assign_captured(*assigned[i].body, assigned[i].captured, results[declared + i]);
  results.resize(declared);
  return results;
}

GraphValues run_once(NodeImportCall& call, const ImportedBody& body, GraphValues arguments) {
  const size_t declared = declared_outputs(body);
  check_result_count(call, declared);
  arguments.insert(arguments.end(), body.captured.begin(), body.captured.end());
  GraphValues results = call.builder().call(body.graph, arguments);
  for (size_t i = 0; i < body.written.size(); ++i)
    call.assign_captured(body, body.written[i], results[declared + i]);
  results.resize(declared);
  return results;
}

}  // namespace ipu::ops
