#include "passes/inline_graph.h"

#include <fmt/core.h>

#include <algorithm>

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

void check_arguments(const ir::Graph& callee, const std::vector<ir::Value*>& arguments) {
  IPU_CHECK(arguments.size() == callee.inputs().size(),
            fmt::format("@{} is inlined with a wrong number of arguments", callee.name()));
}

}  // namespace

std::vector<ir::Value*> move_before(ir::Op& site, ir::Graph& callee,
                                    const std::vector<ir::Value*>& arguments) {
  check_arguments(callee, arguments);
  for (const auto& op : callee.ops()) {
    op->settings = inherited(std::move(op->settings), site.settings);
    if (!op->location) op->location = site.location;
  }
  return site.graph()->take_over(callee, arguments, &site);
}

std::vector<ir::Value*> inline_before(ir::Op& site, const ir::Graph& callee,
                                      const std::vector<ir::Value*>& arguments) {
  check_arguments(callee, arguments);
  ir::Graph* graph = site.graph();
  std::vector<ir::Op*> copies;  // by id
  auto value_of = [&](const ir::Value* value) {
    const ir::Op* producer = value->producer();
    return producer == nullptr ? arguments[static_cast<size_t>(value->index())]
                               : copies[static_cast<size_t>(producer->id())]->result(value->index());
  };
  std::vector<ir::Value*> operands;
  for (const auto& op : callee.ops()) {
    operands.clear();
    for (int i = 0; i < op->operand_count(); ++i)
      operands.push_back(op->operand(i) == nullptr ? nullptr : value_of(op->operand(i)));
    ir::Op* copy = graph->copy(*op, operands, &site);
    copy->settings = inherited(std::move(copy->settings), site.settings);
    if (!op->location) copy->location = site.location;
    const auto id = static_cast<size_t>(op->id());
    for (const ir::Op* earlier : op->after) copy->after.push_back(copies[static_cast<size_t>(earlier->id())]);
    if (id >= copies.size()) copies.resize(std::max(id + 1, 2 * copies.size()));
    copies[id] = copy;
  }
  std::vector<ir::Value*> outputs;
  for (const ir::Value* output : callee.outputs()) outputs.push_back(value_of(output));
  return outputs;
}

void replace_op(ir::Op& op, const std::vector<ir::Value*>& values) {
  for (int i = 0; i < op.result_count(); ++i)
    if (!op.result(i)->is_unused()) op.result(i)->replace_all_uses_with(values[static_cast<size_t>(i)]);
  op.graph()->erase(&op);
}

}  // namespace ipu::passes
