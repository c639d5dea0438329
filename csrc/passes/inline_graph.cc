#include "passes/inline_graph.h"

#include <fmt/core.h>

#include <unordered_map>

#include "support/error.h"

namespace ipu::passes {
namespace {

ir::Settings inherited(ir::Settings own, const ir::Settings& site) {
  if (own.block.empty() && !own.ipu) own.block = site.block;
  if (!own.ipu) own.ipu = site.ipu;
  if (!own.stage) own.stage = site.stage;
  if (!own.phase) own.phase = site.phase;
  if (own.context == ir::Context::kForward) own.context = site.context;
  own.no_grad = own.no_grad || site.no_grad;
  return own;
}

}  // namespace

std::vector<ir::Value*> inline_before(ir::Op& site, const ir::Graph& callee,
                                      const std::vector<ir::Value*>& arguments) {
  IPU_CHECK(arguments.size() == callee.inputs().size(),
            fmt::format("@{} is inlined with a wrong number of arguments", callee.name()));
  ir::Graph* graph = site.graph();
  std::unordered_map<const ir::Value*, ir::Value*> values;
  std::unordered_map<const ir::Op*, ir::Op*> copies;
  for (size_t i = 0; i < arguments.size(); ++i) values[callee.inputs()[i]] = arguments[i];
  for (const auto& op : callee.ops()) {
    std::vector<ir::Value*> operands;
    for (int i = 0; i < op->operand_count(); ++i)
      operands.push_back(op->operand(i) == nullptr ? nullptr : values.at(op->operand(i)));
    ir::Op* copy = graph->copy(*op, operands, &site);
    copy->settings = inherited(op->settings, site.settings);
    if (!op->location) copy->location = site.location;
    for (const ir::Op* earlier : op->after) copy->after.push_back(copies.at(earlier));
    for (int i = 0; i < op->result_count(); ++i) values[op->result(i)] = copy->result(i);
    copies[op.get()] = copy;
  }
  std::vector<ir::Value*> outputs;
  for (const ir::Value* output : callee.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

void replace_op(ir::Op& op, const std::vector<ir::Value*>& values) {
  for (int i = 0; i < op.result_count(); ++i)
    if (!op.result(i)->is_unused()) op.result(i)->replace_all_uses_with(values[static_cast<size_t>(i)]);
  op.graph()->erase(&op);
}

}  // namespace ipu::passes
