#include "ops/control/body_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ir/structure.h"
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

GraphValues branch(NodeImportCall& call, const GraphValues& conditions,
                   const std::vector<ImportedBody>& bodies) {
  const size_t declared = declared_outputs(bodies[0]);
  check_result_count(call, declared);
  std::vector<Assigned> assigned;
  for (size_t b = 0; b < bodies.size(); ++b)
    for (const int i : bodies[b].written) {
      const Assigned more{&bodies[b], i};
      const bool is_known =
          std::any_of(bodies.begin(), bodies.begin() + static_cast<std::ptrdiff_t>(b),
                      [&](const ImportedBody& before) { return written_output(before, more.name()) >= 0; });
      if (!is_known) assigned.push_back(more);
    }
  // All take what any of them reads, and the conditions of those behind the first.
  GraphValues operands = bodies[0].captured;
  const auto take = [&](const GraphValues& values) {
    for (ir::Value* value : values)
      if (place_of(operands, value) == operands.size()) operands.push_back(value);
  };
  for (size_t b = 1; b < bodies.size(); ++b) take(bodies[b].captured);
  take({conditions.begin() + 1, conditions.end()});
  const auto add_graph = [&](const ImportedBody& body, const char* what, GraphValues& inputs) {
    ir::Graph* graph = call.builder().module()->add_graph(body.graph->name() + what);
    for (const ir::Value* value : operands) inputs.push_back(graph->add_input(value->type(), value->name()));
    return graph;
  };
  std::vector<ir::Graph*> graphs;
  for (const ImportedBody& body : bodies) {
    GraphValues inputs, handed;
    ir::Graph* graph = graphs.emplace_back(add_graph(body, ".branch", inputs));
    for (const ir::Value* value : body.captured) handed.push_back(inputs[place_of(operands, value)]);
    const GraphValues made = inside(call, graph).call(body.graph, handed);
    for (size_t i = 0; i < declared; ++i) graph->append_output(made[i]);
    for (const Assigned& one : assigned) {
      const int output = written_output(body, one.name());
      graph->append_output(output < 0 ? inputs[place_of(operands, one.before())]
                                      : made[static_cast<size_t>(output)]);
    }
  }
  ir::Graph* rest = graphs.back();
  for (size_t b = conditions.size() - 1; b > 0; --b) {
    GraphValues inputs;
    ir::Graph* graph = add_graph(bodies[b], ".rest", inputs);
    ir::Value* condition = inputs[place_of(operands, conditions[b])];
    for (ir::Value* value : inside(call, graph).branch(condition, graphs[b], rest, inputs))
      graph->append_output(value);
    rest = graph;
  }
  GraphValues results = call.builder().branch(conditions[0], graphs[0], rest, operands);
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

GraphValues repeated(NodeImportCall& call, const std::string& name, int64_t trip, const GraphValues& carried,
                     const GraphValues& stays, const Round& body, bool has_condition) {
  ir::Graph* graph = call.builder().module()->add_graph(name);
  ir::Value* index = graph->add_input({DType::kI32, {}}, "index");
  GraphValues values, kept;
  for (const ir::Value* value : carried) values.push_back(graph->add_input(value->type(), value->name()));
  for (const ir::Value* value : stays) kept.push_back(graph->add_input(value->type(), value->name()));
  ir::Builder around = inside(call, graph);
  std::swap(call.builder(), around);
  GraphValues made;
  try {
    made = body(index, values, kept);
  } catch (...) {
    std::swap(call.builder(), around);
    throw;
  }
  std::swap(call.builder(), around);
  for (ir::Value* value : made) graph->append_output(value);
  GraphValues operands = carried;
  operands.insert(operands.end(), stays.begin(), stays.end());
  std::vector<ir::Type> types;
  for (const ir::Value* value : carried) types.push_back(value->type());
  Attributes attributes{
      {"body", Symbol{graph->name()}}, {"trip", trip}, {"carried", static_cast<int64_t>(carried.size())}};
  if (has_condition) attributes.set("while", true);
  const ir::Op* loop = call.builder().create(ir::kind::kLoop, operands, std::move(attributes), types);
  GraphValues results;
  for (int i = 0; i < loop->result_count(); ++i) results.push_back(loop->result(i));
  return results;
}

}  // namespace ipu::ops
