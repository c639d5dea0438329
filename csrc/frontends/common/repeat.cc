// See repeat.h. The body graph takes (index, changed slots, other slots that are set) and returns the changed
// ones.
#include "frontends/common/repeat.h"

namespace ipu::frontends {

void repeat(ir::Builder& builder, Slots& slots, int64_t trip, const std::set<int>& changed, bool as_pipeline,
            const std::string& name, const RepeatBody& body) {
  if (trip == 1 && !as_pipeline) return body(builder, slots, nullptr);
  ir::Graph* graph = builder.module()->add_graph(name);
  ir::Value* index = graph->add_input({DType::kI32, {}}, "index");
  Slots inner(slots.size(), nullptr);
  std::vector<int> carried(changed.begin(), changed.end()), invariant;
  for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot)
    if (slots[slot] != nullptr && !changed.contains(slot)) invariant.push_back(slot);
  std::vector<ir::Value*> start, constant;
  for (int slot : carried) {
    start.push_back(slots[slot]);
    inner[slot] = graph->add_input(slots[slot]->type(), slots[slot]->name());
  }
  for (int slot : invariant) inner[slot] = graph->add_input(slots[slot]->type(), slots[slot]->name());
  ir::Builder inner_builder(graph);
  body(inner_builder, inner, index);
  for (int slot : carried) graph->append_output(inner[slot]);
  // Invariants nobody read would be carried to every IPU for nothing.
  for (int slot : invariant)
    if (!inner[slot]->is_unused()) constant.push_back(slots[slot]);
  for (auto slot = invariant.rbegin(); slot != invariant.rend(); ++slot)
    if (inner[*slot]->is_unused()) graph->erase_input(inner[*slot]->index());
  builder.settings = {};
  builder.location = nullptr;
  const std::vector<ir::Value*> ends = as_pipeline ? builder.pipeline(graph, start, constant, trip)
                                                   : builder.loop(graph, start, constant, trip);
  for (size_t i = 0; i < carried.size(); ++i) slots[carried[i]] = ends[i];
}

}  // namespace ipu::frontends
