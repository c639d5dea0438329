#include "frontends/popxl/transforms.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

Op& create_beside(const Op& op, const OpKind& kind, Attributes attributes) {
  return op.graph().create_op(kind, {kind.domain, kind.type, kind.version}, std::move(attributes),
                              op.settings);
}

bool is_mergeable(const Op& op) {
  static const std::set<std::string_view> kTypes = {"HostLoad",          "HostStore",   "RemoteLoad",
                                                    "RemoteLoadInplace", "RemoteStore", "RemoteCodeLoad",
                                                    "MultiExchange"};
  return kTypes.contains(op.kind().type);
}

// Is there a way by operands and edges from an op of `group` to `op` that leaves the group? Then one exchange cannot
// hold both. Edges between members of the group alone do not count.
class Dependence {
 public:
  explicit Dependence(const Graph& graph) : graph_(graph) {}

  bool forces_apart(const std::set<const Op*>& group, const Op& op) const {
    return reaches(group, op) || reaches({&op}, group);
  }

 private:
  std::vector<const Op*> after(const Op& op) const {
    std::vector<const Op*> next;
    for (const auto& [i, tensor] : op.outputs())
      for (const Tensor::Use& use : tensor->uses()) next.push_back(use.op);
    for (const Op* later : graph_.after(op)) next.push_back(later);
    return next;
  }
  bool is_data(const Op& from, const Op& to) const {
    for (const auto& [i, tensor] : from.outputs())
      for (const Tensor::Use& use : tensor->uses())
        if (use.op == &to) return true;
    return false;
  }
  bool reaches(const std::set<const Op*>& from, const Op& to) const {
    return reaches(from, std::set<const Op*>{&to});
  }
  bool reaches(const std::set<const Op*>& from, const std::set<const Op*>& to) const {
    std::set<const Op*> seen;
    std::vector<const Op*> open;
    for (const Op* op : from)
      for (const Op* next : after(*op)) {
        if (to.contains(next) && !is_data(*op, *next)) continue;  // an edge alone goes with the merging
        if (to.contains(next)) return true;
        if (!from.contains(next) && seen.insert(next).second) open.push_back(next);
      }
    while (!open.empty()) {
      const Op* op = open.back();
      open.pop_back();
      for (const Op* next : after(*op)) {
        if (to.contains(next)) return true;
        if (seen.insert(next).second) open.push_back(next);
      }
    }
    return false;
  }
  const Graph& graph_;
};

std::vector<Transfer> transfers_of(const Op& op) {
  if (!op.transfers.empty()) return op.transfers;
  Transfer transfer{&op.kind(), op.attributes, {}, {}};
  for (const auto& [i, tensor] : op.inputs()) transfer.inputs[i] = i;
  for (const auto& [i, tensor] : op.outputs()) transfer.outputs[i] = i;
  return {transfer};
}

Op& merge(Graph& graph, const std::vector<Op*>& group) {
  Op& exchange = create_beside(*group.front(), kind_of("MultiExchange"), {});
  int inputs = 0, outputs = 0;
  std::set<Op*> before, after;
  const std::set<const Op*> members(group.begin(), group.end());
  for (Op* op : group) {
    std::map<int, int> input_of, output_of;
    const std::map<int, Tensor*> given = op->inputs(), made = op->outputs();
    for (const auto& [i, tensor] : given) {
      exchange.connect_input(inputs, *tensor);
      input_of[i] = inputs++;
    }
    for (Transfer transfer : transfers_of(*op)) {
      for (auto& [own, i] : transfer.inputs) i = input_of.at(i);
      for (auto& [own, i] : transfer.outputs) {
        if (!output_of.contains(i)) output_of[i] = outputs++;
        i = output_of.at(i);
      }
      exchange.transfers.push_back(std::move(transfer));
    }
    for (Op* other : graph.before(*op))
      if (!members.contains(other)) before.insert(other);
    for (Op* other : graph.after(*op))
      if (!members.contains(other)) after.insert(other);
    graph.erase_op(*op);
    for (const auto& [i, tensor] : made) exchange.connect_output(output_of.at(i), *tensor);
  }
  for (Op* other : before) graph.add_edge(*other, exchange);
  for (Op* other : after) graph.add_edge(exchange, *other);
  return exchange;
}

}  // namespace

void decompose_sums(Graph& graph) {
  std::vector<Op*> sums;
  for (const auto& [id, op] : graph.ops())
    if (op->kind().type == "Sum" && op->inputs().size() > 2) sums.push_back(op);
  if (sums.empty()) return;
  std::unordered_map<const Op*, size_t> position;
  for (Op* op : graph.schedule()) position.emplace(op, position.size() + 1);
  for (Op* sum : sums) {
    std::vector<Tensor*> addends;
    for (const auto& [i, tensor] : sum->inputs()) addends.push_back(tensor);
    const auto made_at = [&](const Tensor* tensor) {
      return tensor->producer() == nullptr ? size_t{0} : position[tensor->producer()];
    };
    std::stable_sort(addends.begin(), addends.end(),
                     [&](const Tensor* a, const Tensor* b) { return made_at(a) < made_at(b); });
    Tensor& total = *sum->output(0);
    const TensorInfo info = total.info;
    Op& init = create_beside(*sum, kind_of("Init"),
                             {{"dtype", static_cast<int64_t>(info.dtype)},
                              {"shape", info.shape},
                              {"meta_shape", info.meta_shape}});
    Tensor* running = &init.create_output(0, fmt::format("{}_init", total.id()));
    running->info = info;
    std::vector<Op*> chain;
    for (size_t i = 0; i < addends.size(); ++i) {
      Op& add = create_beside(*sum, kind_of("Add"), {});
      add.connect_input(0, *running);
      add.connect_input(1, *addends[i]);
      chain.push_back(&add);
      if (i + 1 == addends.size()) break;
      running = &add.create_output(0, fmt::format("{}_{}", total.id(), i));
      running->info = info;
    }
    const OpSet before = graph.before(*sum), after = graph.after(*sum);
    graph.erase_op(*sum);
    chain.back()->connect_output(0, total);
    for (Op* other : before) graph.add_edge(*other, init);
    for (Op* other : after) graph.add_edge(*chain.back(), *other);
    position.emplace(&init, 0);
  }
}

std::vector<Op*> merge_exchange(Graph& graph, const std::vector<Op*>& ops) {
  std::vector<std::vector<Op*>> groups;
  const Dependence dependence(graph);
  for (Op* op : ops) {
    if (!is_mergeable(*op)) continue;
    bool placed = false;
    for (std::vector<Op*>& group : groups) {
      const bool same_place = group.front()->settings.ipu == op->settings.ipu &&
                              group.front()->settings.context == op->settings.context;
      if (!same_place || dependence.forces_apart({group.begin(), group.end()}, *op)) continue;
      group.push_back(op);
      placed = true;
      break;
    }
    if (!placed) groups.push_back({op});
  }
  std::vector<Op*> made;
  for (const std::vector<Op*>& group : groups)
    if (group.size() > 1) made.push_back(&merge(graph, group));
  return made;
}

void prune(Graph& graph) {
  std::vector<Op*> order = graph.schedule();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    Op& op = **at;
    const bool matters = op.kind().has_side_effect || op.kind().is_optimizer || !op.kind().modifies.empty() ||
                         !op.modified.empty() || !op.callees.empty();
    const bool is_read = std::any_of(op.outputs().begin(), op.outputs().end(), [&](const auto& entry) {
      return !entry.second->uses().empty() ||
             std::find(graph.outputs.begin(), graph.outputs.end(), entry.second) != graph.outputs.end();
    });
    if (matters || is_read) continue;
    std::vector<Tensor*> outputs;
    for (const auto& [i, tensor] : op.outputs()) outputs.push_back(tensor);
    graph.erase_op(op);
    for (Tensor* tensor : outputs) graph.erase_tensor(*tensor);
  }
}

}  // namespace ipu::popxl
