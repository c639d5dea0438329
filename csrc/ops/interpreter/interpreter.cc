// The state of an interpretation, and single ops. Running graphs: interpreter_run.cc.
#include "ops/interpreter/interpreter.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/replicas.h"
#include "ops/definition/build.h"
#include "ops/interpreter/interpreter_run.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

// Where what a replica holds lies in the elements the host sees.
struct Part {
  int64_t start = 0, size = 0, whole = 0;  // elements from `start` on, of `size`; none behind `whole`
};

// `group_elements`: of one group's value; `groups` 1: the host gives one value for all of them.
Part part_of(const ir::Variable& variable, int64_t groups, int64_t replicas, int64_t replica,
             int64_t group_elements) {
  const std::vector<std::vector<int64_t>> members = variable.grouping.members(replicas);
  for (size_t g = 0; g < members.size(); ++g) {
    auto at = std::find(members[g].begin(), members[g].end(), replica);
    if (at == members[g].end()) continue;
    Part part;
    part.start = groups > 1 ? static_cast<int64_t>(g) * group_elements : 0;
    part.whole = part.start + group_elements;
    part.size = variable.type.elements();
    if (variable.shard_over > 1) part.start += (at - members[g].begin()) % variable.shard_over * part.size;
    return part;
  }
  IPU_CHECK(false, fmt::format("replica {} is in no group of @{}", replica, variable.name));
}

ReferenceTensor value_on_replica(const ir::Variable& variable, const ReferenceTensor& host, int64_t replicas,
                                 int64_t replica) {
  const Shape whole = ir::host_shape(variable, replicas);
  const Shape& of_group = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
  if (host.type.dtype != variable.type.dtype || (host.type.shape != whole && host.type.shape != of_group))
    throw Error(
        ErrorCode::kExecution,
        fmt::format("variable mismatch: the host gives {} for @{}, which takes {}.", ir::to_string(host.type),
                    variable.name, ir::to_string(ir::Type{variable.type.dtype, whole})));
  const int64_t elements = element_count(of_group);
  const int64_t groups = elements == 0 ? 1 : host.size() / elements;
  const Part part = part_of(variable, groups, replicas, replica, elements);
  ReferenceTensor value = ReferenceTensor::zeros(variable.type);
  for (int64_t i = 0; i < part.size && part.start + i < part.whole; ++i)
    value.values[static_cast<size_t>(i)] = host.values[static_cast<size_t>(part.start + i)];
  return value;
}

const ir::Variable& named_variable(const ir::Module& module, const std::string& name) {
  const ir::Variable* variable = module.find_variable(name);
  if (variable == nullptr)
    throw Error(ErrorCode::kExecution, fmt::format("unknown variable: @{} does not exist.", name));
  return *variable;
}

}  // namespace

std::vector<ReferenceTensor> interpret_op(const ir::Op& op,
                                          const std::vector<const ReferenceTensor*>& operands,
                                          Arithmetic arithmetic, int64_t replica) {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kExecution,
                fmt::format("{}\n  in: {} of graph @{}", what, op.kind(), op.graph()->name()))
        .at(ir::user_line(op.location));
  };
  const OpDef* def = definition(op);
  if (def == nullptr)
    fail(fmt::format("unknown operation: '{}' has no definition and cannot run.", op.kind()));
  if (!def->reference) fail(fmt::format("no reference: '{}' has no reference value.", op.kind()));
  std::vector<ReferenceTensor> results;
  for (int i = 0; i < op.result_count(); ++i) results.push_back(ReferenceTensor::zeros(op.result(i)->type()));
  const Attributes attributes = with_defaults(*def, op.attributes);
  ReferenceCall call{attributes, operands, {}, replica};
  for (ReferenceTensor& result : results) call.results.push_back(&result);
  def->reference(call);
  for (ReferenceTensor& result : results) settle(result, arithmetic);
  return results;
}

Interpreter::Interpreter(const ir::Module& module, Arithmetic arithmetic, int64_t replicas)
    : module_(module), arithmetic_(arithmetic) {
  if (replicas == 0) replicas = ir::replica_count(module);
  IPU_CHECK(replicas >= 1, fmt::format("an interpreter of {} replicas", replicas));
  others_.resize(static_cast<size_t>(replicas) - 1);
}

ReplicaState& Interpreter::replica(int64_t number) {
  IPU_CHECK(number >= 0 && number < replicas(), fmt::format("there is no replica {}", number));
  return number == 0 ? *this : others_[static_cast<size_t>(number) - 1];
}

ReferenceTensor* Interpreter::find_value(int64_t number, const ir::Variable& variable) {
  std::map<std::string, ReferenceTensor>& values = replica(number).variables;
  auto at = values.find(variable.name);
  if (at == values.end()) {
    if (variable.initial == nullptr) return nullptr;
    ReferenceTensor first = ReferenceTensor::from_constant(*variable.initial);
    if (first.type.shape.empty()) {  // what every element starts with
      first.type.shape = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
      first.values.assign(static_cast<size_t>(first.type.elements()), first.values[0]);
    }
    at = values.emplace(variable.name, value_on_replica(variable, first, replicas(), number)).first;
  }
  return &at->second;
}

void Interpreter::upload(const std::string& name, const ReferenceTensor& value) {
  const ir::Variable& variable = named_variable(module_, name);
  for (int64_t r = 0; r < replicas(); ++r) {
    ReferenceTensor own = value_on_replica(variable, value, replicas(), r);
    settle(own, arithmetic_);
    replica(r).variables[name] = std::move(own);
  }
}

ReferenceTensor Interpreter::download(const std::string& name) {
  const ir::Variable& variable = named_variable(module_, name);
  const std::vector<std::vector<int64_t>> groups = variable.grouping.members(replicas());
  const Shape& of_group = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
  const bool all = variable.retrieval == ir::Retrieval::kAllReplicas;
  Shape shape = ir::host_shape(variable, replicas());
  if (all && groups.size() != static_cast<size_t>(replicas())) {
    shape = of_group;
    shape.insert(shape.begin(), replicas());
  }
  ReferenceTensor host = ReferenceTensor::zeros({variable.type.dtype, shape});
  const int64_t elements = element_count(of_group);
  auto place = [&](int64_t number, int64_t slot, int64_t shard) {
    const ReferenceTensor* value = find_value(number, variable);
    if (value == nullptr)
      throw Error(ErrorCode::kExecution,
                  fmt::format("variable has no value: @{} was neither uploaded nor initialised.", name));
    for (int64_t i = 0, at = shard * value->size(); i < value->size() && at + i < elements; ++i)
      host.values[static_cast<size_t>(slot * elements + at + i)] = value->values[static_cast<size_t>(i)];
  };
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t m = 0; m < groups[g].size(); ++m) {
      const auto shard = static_cast<int64_t>(m) % variable.shard_over;
      if (all) {  // each replica's whole value, from the shards of the ones around it
        const size_t first = m - static_cast<size_t>(shard);
        for (int64_t s = 0; s < variable.shard_over; ++s)
          place(groups[g][first + static_cast<size_t>(s)], groups[g][m], s);
      } else if (static_cast<int64_t>(m) < variable.shard_over) {
        place(groups[g][m], static_cast<int64_t>(g), shard);
      }
    }
  return host;
}

std::vector<std::vector<ReferenceTensor>> Interpreter::run_all(const ir::Graph& graph,
                                                               std::vector<ReferenceTensor> inputs) {
  std::vector<ReplicaValues> values;
  for (ReferenceTensor& input : inputs) {
    settle(input, arithmetic_);
    values.emplace_back(static_cast<size_t>(replicas()),
                        std::make_shared<const ReferenceTensor>(std::move(input)));
  }
  ReplicaList everyone;
  for (int64_t r = 0; r < replicas(); ++r) everyone.push_back(r);
  std::vector<std::vector<ReferenceTensor>> outputs(static_cast<size_t>(replicas()));
  for (const ReplicaValues& output : InterpreterRun(*this).graph(graph, std::move(values), everyone))
    for (size_t r = 0; r < outputs.size(); ++r) outputs[r].push_back(*output[r]);
  return outputs;
}

std::vector<ReferenceTensor> Interpreter::run(const ir::Graph& graph, std::vector<ReferenceTensor> inputs) {
  return std::move(run_all(graph, std::move(inputs))[0]);
}

void Interpreter::run_entry_point(const std::string& name) {
  auto at = module_.entry_points.find(name);
  const ir::Graph* graph = at == module_.entry_points.end() ? nullptr : module_.find_graph(at->second);
  if (graph == nullptr)
    throw Error(ErrorCode::kExecution, fmt::format("unknown entry point: '{}' does not exist.", name));
  run_all(*graph, {});
}

}  // namespace ipu::ops
