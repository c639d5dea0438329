#include "frontends/popxl/differentiate.h"

#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/grad_graph.h"
#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void refuse(std::string text) { throw Error(ErrorCode::kNotDifferentiable, std::move(text)); }

// Graphs that calls and branches below `graph` run, each after those that it runs itself; without `graph`.
std::vector<Graph*> callees_first(Graph& graph, const GradInfos& known) {
  std::vector<Graph*> order;
  std::set<const Graph*> seen;
  struct Step {
    Graph* graph;
    std::vector<Graph*> callees;
    size_t next = 0;
  };
  const auto differentiated = [](Graph& of) {
    std::vector<Graph*> callees;
    for (const auto& [id, op] : of.ops())
      if (op->kind().type == "Call" || op->kind().type == "If")
        callees.insert(callees.end(), op->callees.begin(), op->callees.end());
    return callees;
  };
  std::vector<Step> steps{{&graph, differentiated(graph)}};
  while (!steps.empty()) {
    Step& step = steps.back();
    if (step.next == step.callees.size()) {
      if (step.graph != &graph) order.push_back(step.graph);
      steps.pop_back();
      continue;
    }
    Graph* callee = step.callees[step.next++];
    if (known.contains(callee->id()) || !seen.insert(callee).second) continue;
    if (!callee->may_be_differentiated)
      refuse(
          fmt::format("gradient not given: graph '{}' may not be differentiated as a callee, and "
                      "called_graphs_grad_info has nothing for it",
                      callee->id()));
    steps.push_back({callee, differentiated(*callee)});
  }
  return order;
}

std::vector<Tensor*> numbers(const std::vector<Tensor*>& tensors) {  // each once
  std::vector<Tensor*> result;
  for (Tensor* tensor : tensors)
    if (tensor->info.dtype != DataType::kBool &&
        std::find(result.begin(), result.end(), tensor) == result.end())
      result.push_back(tensor);
  return result;
}

std::vector<Tensor*> tensors_of(const Graph& graph, const std::vector<std::string>& ids) {
  std::vector<Tensor*> tensors;
  for (const std::string& id : ids) tensors.push_back(&graph.tensor(id));
  return tensors;
}

}  // namespace

GradInfos differentiate(Graph& graph, const std::vector<std::string>& provided,
                        const std::optional<std::vector<std::string>>& required, GradInfos known,
                        Stitch stitch) {
  if (required && required->empty())
    refuse(fmt::format("no gradient required: the list of required gradients of graph '{}' is empty",
                       graph.id()));
  const std::vector<Tensor*> given = tensors_of(graph, provided);
  const std::vector<Tensor*> wanted = required ? tensors_of(graph, *required) : graph.inputs;
  const std::vector<Graph*> callees = callees_first(graph, known);
  for (const Graph* callee : callees) refuse_writes(*callee);
  refuse_writes(graph);
  for (Graph* callee : callees)
    known[callee->id()] =
        GradGraphMaker(*callee, known).make(numbers(callee->outputs), numbers(callee->inputs), true, stitch);
  known[graph.id()] =
      GradGraphMaker(graph, known).make(given.empty() ? graph.outputs : given, wanted, false, stitch);
  return known;
}

}  // namespace ipu::popxl
