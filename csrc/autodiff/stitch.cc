// Both ways work on a complete gradient graph: the first changes the forward graph, the second the gradient
// graph.
#include "autodiff/stitch.h"

#include <fmt/core.h>

#include <unordered_map>
#include <unordered_set>

#include "autodiff/in_graph.h"
#include "ir/regions.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_def.h"
#include "ops/definition/op_gradients.h"
#include "support/error.h"

namespace ipu::autodiff {
namespace {

ir::Op* clone_op(const ir::Op& op, ir::Graph& into, ir::Op* before,
                 std::unordered_map<const ir::Value*, ir::Value*>& values) {
  std::vector<ir::Value*> operands;
  for (int i = 0; i < op.operand_count(); ++i)
    operands.push_back(op.operand(i) == nullptr ? nullptr : values.at(op.operand(i)));
  ir::Op* copy = into.copy(op, operands, before);
  copy->settings.context = ir::Context::kBackward;
  copy->settings.recompute = ir::Recompute::kRecompute;
  copy->settings.stage.reset();
  for (int i = 0; i < op.result_count(); ++i) values[op.result(i)] = copy->result(i);
  return copy;
}

// An op whose results are its first operands: one that prints, or a gradient of the user's own.
bool only_shows(const ir::Op& op) {
  if (op.is(kCustomGradient)) return true;
  const ops::OpDef* def = ops::definition(op);
  return def != nullptr && def->family == "debug";
}

}  // namespace

bool append_missing_outputs(ir::Graph& graph, const GradInfo& info) {
  bool appended = false;
  for (const Connection& input : info.expected_inputs) {
    if (input.kind != ConnectionKind::kForward) continue;
    if (input.forward->producer() == nullptr || input.forward->is_output()) continue;
    graph.append_output(input.forward);
    appended = true;
  }
  return appended;
}

void complete_call_sites(ir::Module& module, const GrownGraphs& grown) {
  for (const auto& caller : module.graphs())
    for (const auto& op : caller->ops())
      for (const ir::Graph* callee : ir::called_graphs(*op)) {
        if (!grown.contains(callee)) continue;
        IPU_CHECK(op->is(ir::kind::kCall),
                  fmt::format("@{} is a body of '{}', its outputs are fixed", callee->name(), op->kind()));
        ir::result_for_output(*op, *callee, static_cast<int>(callee->outputs().size()) - 1);
      }
}

void recompute_forward_values(const ir::Graph& graph, GradInfo& info) {
  ir::Graph& backward = *info.graph;
  std::unordered_map<const ir::Value*, ir::Value*> values;  // forward → in the gradient graph
  std::unordered_set<const ir::Op*> wanted;
  for (size_t i = 0; i < info.expected_inputs.size(); ++i) {
    const Connection& input = info.expected_inputs[i];
    if (input.kind != ConnectionKind::kForward) continue;
    if (input.forward->producer() == nullptr) {
      values[input.forward] = backward.inputs()[i];
    } else {
      wanted.insert(input.forward->producer());
    }
  }
  if (wanted.empty()) return;
  std::vector<const ir::Op*> order;
  for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
    const ir::Op& op = **at;
    if (!wanted.contains(&op)) continue;
    if (ops::has_side_effects(op) && !only_shows(op))
      ops::not_differentiable(
          op,
          "in a body of a loop or branch, whose operations the backward pass repeats; what "
          "prints or calls the host is not repeated");
    order.push_back(&op);
    for (int i = 0; i < (only_shows(op) ? op.result_count() : op.operand_count()); ++i) {
      ir::Value* operand = op.operand(i);
      if (operand == nullptr) continue;
      if (operand->producer() != nullptr) {
        wanted.insert(operand->producer());
      } else if (!values.contains(operand)) {
        values[operand] = backward.add_input(operand->type(), operand->name());
        info.expected_inputs.push_back({ConnectionKind::kForward, operand});
      }
    }
  }
  ir::Op* first = backward.ops().empty() ? nullptr : backward.ops().front().get();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const ir::Op& op = **at;
    if (only_shows(op))
      for (int i = 0; i < op.result_count(); ++i) values[op.result(i)] = values.at(op.operand(i));
    else
      clone_op(op, backward, first, values);
  }
  for (int i = static_cast<int>(info.expected_inputs.size()) - 1; i >= 0; --i) {
    const Connection& input = info.expected_inputs[i];
    if (input.kind != ConnectionKind::kForward || input.forward->producer() == nullptr) continue;
    backward.inputs()[i]->replace_all_uses_with(values.at(input.forward));
    backward.erase_input(i);
    info.expected_inputs.erase(info.expected_inputs.begin() + i);
  }
}

}  // namespace ipu::autodiff
