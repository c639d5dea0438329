#include "lowering/subroutine.h"

#include <algorithm>
#include <unordered_set>

#include "ir/subroutine.h"

namespace ipu::lowering {

std::vector<int> Subroutine::inputs(int ipu) const {
  std::vector<int> numbers_here;
  for (const ir::Value* input : graph().inputs())
    if (input_home(input->index()) == ipu && demand_.needs(ipu, nest_.root(), input))
      numbers_here.push_back(input->index());
  return numbers_here;
}

std::vector<int> Subroutine::outputs(int ipu) const {
  std::vector<int> numbers_here;
  for (int i = 0; i < static_cast<int>(graph().outputs().size()); ++i)
    if (nest_.output_home(i) == ipu && input_returned(i) < 0 && first_like(i) == i) numbers_here.push_back(i);
  return numbers_here;
}

int Subroutine::input_returned(int output) const {
  const ir::Value* value = graph().outputs()[output];
  return value->producer() == nullptr ? value->index() : -1;
}

int Subroutine::first_like(int output) const {
  const std::vector<ir::Value*>& outputs = graph().outputs();
  return static_cast<int>(std::find(outputs.begin(), outputs.end(), outputs[output]) - outputs.begin());
}

Subroutines find_subroutines(const ir::Module& module, const std::vector<const ir::Graph*>& entries) {
  struct Frame {
    const ir::Graph* graph;
    ir::Graph::OpList::const_iterator next;
    std::vector<ir::Graph*> callees = {};
  };
  Subroutines found;
  std::unordered_set<const ir::Graph*> seen;
  std::vector<Frame> stack;
  auto enter = [&](const ir::Graph* graph) {
    if (seen.insert(graph).second) stack.push_back({graph, graph->ops().begin()});
  };
  for (const ir::Graph* entry : entries) {
    enter(entry);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (!top.callees.empty()) {
        const ir::Graph* callee = top.callees.back();
        top.callees.pop_back();
        enter(callee);
      } else if (top.next != top.graph->ops().end()) {
        top.callees = ir::called_graphs(**top.next++);
      } else {
        const ir::Graph* graph = top.graph;
        stack.pop_back();
        if (!ir::is_subroutine(*graph)) continue;
        found.list.push_back(std::make_unique<Subroutine>(module, *graph, found));
        found.by_graph.emplace(graph, found.list.back().get());
      }
    }
  }
  return found;
}

}  // namespace ipu::lowering
