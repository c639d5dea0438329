// Which value a captured graph trains on: one final loss, to which others may lead.
#include <fmt/core.h>

#include <unordered_set>

#include "autodiff/in_graph.h"
#include "frontends/common/step_builder.h"
#include "ops/definition/op_def.h"
#include "support/wording.h"

namespace ipu::frontends {
namespace {

std::string describe(const ir::Op& op) {
  return fmt::format("'{}' at {}", op.kind(), ir::to_string(op.location));
}

// The losses that gradients of a state reach. One whose operands are all detached takes no part in training.
std::vector<ir::Op*> losses_of(const ir::Graph& graph, int first_state) {
  std::unordered_set<const ir::Value*> reached(graph.inputs().begin() + first_state, graph.inputs().end());
  std::vector<ir::Op*> losses, all, inner;
  for (const auto& op : graph.ops()) {
    bool is_loss = ops::has_trait(*op, ops::kLoss) && !op->settings.no_grad;
    if (is_loss && op->settings.outline.has(kInnerLoss)) {
      is_loss = false;
      if (op->settings.outline.boolean(kInnerLoss)) inner.push_back(op.get());
    }
    if (is_loss) all.push_back(op.get());
    if (op->settings.no_grad || op->is("detach")) continue;
    bool flows = false;
    for (int i = 0; i < op->operand_count(); ++i)
      flows |= reached.contains(op->operand(i)) && autodiff::takes_gradient(*op, i);
    if (!flows) continue;
    if (is_loss) losses.push_back(op.get());
    for (int i = 0; i < op->result_count(); ++i) reached.insert(op->result(i));
  }
  if (all.empty()) return inner;
  return losses.empty() ? all : losses;
}

// Those that do not feed the last one.
std::vector<const ir::Op*> independent_of_last(const ir::Graph& graph, const std::vector<ir::Op*>& losses) {
  std::unordered_set<const ir::Op*> feeding{losses.back()};
  for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
    if (!feeding.contains((*at).get())) continue;
    for (int i = 0; i < (*at)->operand_count(); ++i)
      if ((*at)->operand(i) != nullptr && (*at)->operand(i)->producer() != nullptr)
        feeding.insert((*at)->operand(i)->producer());
  }
  std::vector<const ir::Op*> independent;
  for (const ir::Op* loss : losses)
    if (!feeding.contains(loss)) independent.push_back(loss);
  return independent;
}

}  // namespace

const ir::Op* reader_of_loss(const ir::Value& loss) {
  for (const ir::Use& use : loss.uses())
    if (!use.user->settings.no_grad && !use.user->is("detach") && !use.user->is("nop") &&
        !use.user->is("print_tensor"))
      return use.user;
  return nullptr;
}

const ir::Op* final_loss_of(const ir::Graph& graph, int first_state) {
  const std::vector<ir::Op*> losses = losses_of(graph, first_state);
  return losses.empty() || !independent_of_last(graph, losses).empty() ? nullptr : losses.back();
}

ir::Value* find_final_loss(const ir::Graph& graph, int first_state) {
  std::vector<ir::Op*> losses = losses_of(graph, first_state);
  if (losses.empty())
    throw worded(
        ErrorCode::kNoLoss, "no_loss",
        "couldn't find a loss: training needs exactly one final loss and none was captured in forward.", {});

  // The last loss of the capture is the final one if every other loss feeds it.
  ir::Op* last = losses.back();
  std::string independent;
  for (const ir::Op* loss : independent_of_last(graph, losses)) independent += "\n  " + describe(*loss);
  if (!independent.empty())
    throw worded(ErrorCode::kSeveralLosses, "several_losses",
                 "several losses: these do not feed the last one, {last}:{others}",
                 {{"last", describe(*last)}, {"others", independent}})
        .at(ir::user_line(last->location));

  ir::Value* loss = last->result();
  if (loss->type().elements() != 1)
    throw worded(
        ErrorCode::kNotDifferentiable, "loss_of_many_numbers",
        "not differentiable: the final loss {loss} has shape {shape}, and a gradient needs a single number.",
        {{"loss", describe(*last)}, {"shape", to_string(loss->type().shape)}})
        .at(ir::user_line(last->location));
  return loss;
}

}  // namespace ipu::frontends
