#include "ir/regions.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::ir {

Region::Region(const Op& op) : op_(op) {
  IPU_CHECK(is_region(op), fmt::format("'{}' runs no graphs", op.kind()));
  if (!repeats()) return;
  carried_ = static_cast<int>(op.attributes.integer("carried"));
  first_output_ = op.structure()->may_stop && op.attributes.boolean("while", false) ? 1 : 0;
}

Graph& Region::body() const {
  const std::vector<Graph*> graphs = bodies();
  IPU_CHECK(!graphs.empty(), fmt::format("the graph of '{}' does not exist", op_.kind()));
  return *graphs.front();
}

std::vector<Value*> Region::arguments(Value* index) const {
  std::vector<Value*> values;
  if (repeats()) values.push_back(index);
  for (int i = first_operand(); i < op_.operand_count(); ++i) values.push_back(op_.operand(i));
  return values;
}

void set_body(Op& op, int i, const Graph& graph) {
  const StructuralKind& row = *op.structure();
  const auto number = static_cast<size_t>(i);
  if (!row.has_body_list) return op.attributes.set(row.bodies.at(number), Symbol{graph.name()});
  std::vector<Symbol> symbols = op.attributes.symbols(row.bodies[0]);
  symbols.at(number) = Symbol{graph.name()};
  op.attributes.set(row.bodies[0], std::move(symbols));
}

Value* result_for_output(Op& call, const Graph& callee, int i) {
  for (int k = call.result_count(); k <= i; ++k) {
    const Value* output = callee.outputs()[static_cast<size_t>(k)];
    call.append_result(output->type(), output->name());
  }
  return call.result(i);
}

bool complete_calls(Module& module) {
  bool changed = false;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      if (!is_call(*op)) continue;
      const Graph& callee = Region(*op).body();
      const auto outputs = static_cast<int>(callee.outputs().size());
      if (op->result_count() >= outputs) continue;
      result_for_output(*op, callee, outputs - 1);
      changed = true;
    }
  return changed;
}

}  // namespace ipu::ir
