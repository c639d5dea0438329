// Graph::schedule: a topological order that takes, of the ops that are ready, the one that adds fewest live bytes.
// Calls that write an input by reference keep the order in which they were made, among each other and with whatever else uses
// that memory. O((ops + edges) log ops).
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

enum class Prefer : uint8_t { kFewestBytes, kFirstMade };

bool writes_by_reference(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [](const auto& entry) {
    return !entry.second->callees.empty() && !entry.second->modified.empty();
  });
}

// Which tensors of a graph lie in one memory.
class SharedMemory {
 public:
  explicit SharedMemory(const Graph& graph) {
    for (const auto& [id, op] : graph.ops()) {
      const Tensor* output = op->output(0);
      if (output == nullptr) continue;
      const std::vector<int>& views = op->kind().views;
      for (const auto& [i, tensor] : op->inputs())
        if (std::find(views.begin(), views.end(), i) != views.end() || views == std::vector<int>{-1} ||
            (!op->kind().modifies.empty() && op->kind().modifies.front() == i))
          first_[first(output)] = first(tensor);
    }
  }
  const Tensor* first(const Tensor* tensor) {
    const auto found = first_.find(tensor);
    if (found == first_.end() || found->second == tensor) return tensor;
    return found->second = first(found->second);
  }

 private:
  std::map<const Tensor*, const Tensor*> first_;
};

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph, Prefer prefer = Prefer::kFewestBytes)
      : graph_(graph), prefer_(prefer) {
    for (const Tensor* output : graph.outputs) kept_.insert(output);
    for (const auto& [id, op] : graph.ops()) {
      states_[op];
      for (const auto& [i, tensor] : op->inputs())
        if (tensor->producer() != nullptr) add(*tensor->producer(), *op);
      for (Op* before : graph.before(*op)) add(*before, *op);
    }
    for (const auto& [id, tensor] : graph.tensors()) readers_[tensor] = distinct_readers(*tensor);
  }

  // Orders what calls write by reference as `order` has it, which everything else allows.
  void keep_writes_of_calls(const std::vector<Op*>& order) {
    SharedMemory memory(graph_);
    struct Accesses {
      Op* write = nullptr;      // the last one by a call
      std::vector<Op*> others;  // since then
    };
    std::map<const Tensor*, Accesses> written;
    for (Op* op : order)
      for (const int i : op->modified)
        if (!op->callees.empty() && op->input(i) != nullptr) written[memory.first(op->input(i))];
    for (Op* op : order) {
      std::set<const Tensor*> seen;
      for (const auto& [i, tensor] : op->inputs()) {
        const auto found = written.find(memory.first(tensor));
        if (found == written.end() || !seen.insert(found->first).second) continue;
        Accesses& known = found->second;
        if (known.write != nullptr) add(*known.write, *op);
        const bool writes =
            !op->callees.empty() && std::any_of(op->modified.begin(), op->modified.end(), [&](int m) {
              return op->input(m) != nullptr && memory.first(op->input(m)) == found->first;
            });
        if (!writes) {
          known.others.push_back(op);
          continue;
        }
        for (Op* other : known.others) add(*other, *op);
        known = {op, {}};
      }
    }
  }

  std::vector<Op*> run() {
    // What a tied op waits for, the one in front of it waits for as well.
    for (auto at = graph_.ops().rbegin(); at != graph_.ops().rend(); ++at)
      for (Op* tied : graph_.tied(*at->second))
        for (Op* before : std::set<Op*>(states_[tied].before))
          if (before != at->second) add(*before, *at->second);
    for (const auto& [id, op] : graph_.ops())
      if (states_[op].before.empty()) make_ready(*op);
    std::vector<Op*> order;
    order.reserve(graph_.ops().size());
    while (!ready_.empty()) {
      Op* op = std::get<2>(*ready_.begin());
      for (bool more = true; more;) {
        take(*op);
        order.push_back(op);
        more = false;
        for (Op* tied : graph_.tied(*op))
          if (states_[tied].is_ready) {
            op = tied;
            more = true;
            break;
          }
      }
    }
    if (order.size() != graph_.ops().size()) report_cycle();
    return order;
  }

 private:
  using Key = std::tuple<int64_t, int64_t, Op*>;  // bytes it adds, id
  struct State {
    std::set<Op*> before, after;
    size_t done = 0;
    bool is_ready = false, is_taken = false;
    int64_t bytes = 0;
  };

  void add(Op& before, Op& after) {
    if (states_[&after].before.insert(&before).second) states_[&before].after.insert(&after);
  }

  static int64_t bytes_of(const Tensor& tensor) {
    return element_count(tensor.info.shape) * size_in_bytes(tensor.info.dtype);
  }

  static int64_t distinct_readers(const Tensor& tensor) {
    std::set<const Op*> readers;
    for (const Tensor::Use& use : tensor.uses()) readers.insert(use.op);
    return static_cast<int64_t>(readers.size());
  }

  bool can_die(const Tensor& tensor) const {
    return tensor.producer() != nullptr && !kept_.contains(&tensor);
  }

  int64_t added_bytes(const Op& op) const {
    int64_t bytes = 0;
    for (const auto& [i, tensor] : op.outputs()) bytes += bytes_of(*tensor);
    std::set<const Tensor*> seen;
    for (const auto& [i, tensor] : op.inputs())
      if (seen.insert(tensor).second && can_die(*tensor) && readers_.at(tensor) == 1)
        bytes -= bytes_of(*tensor);
    return bytes;
  }

  void make_ready(Op& op) {
    State& state = states_[&op];
    state.is_ready = true;
    state.bytes = prefer_ == Prefer::kFewestBytes ? added_bytes(op) : 0;
    ready_.insert({state.bytes, op.id(), &op});
  }

  void take(Op& op) {
    State& state = states_[&op];
    ready_.erase({state.bytes, op.id(), &op});
    state.is_ready = false;
    state.is_taken = true;
    std::set<const Tensor*> seen;
    for (const auto& [i, tensor] : op.inputs()) {
      if (!seen.insert(tensor).second || --readers_[tensor] != 1) continue;
      for (const Tensor::Use& use : tensor->uses())
        if (State& last = states_[use.op]; last.is_ready) {
          ready_.erase({last.bytes, use.op->id(), use.op});
          make_ready(*use.op);
        }
    }
    for (Op* after : state.after)
      if (++states_[after].done == states_[after].before.size()) make_ready(*after);
  }

  [[noreturn]] void report_cycle() const {
    std::string names;
    int count = 0;
    for (const auto& [id, op] : graph_.ops())
      if (!states_.at(op).is_taken && count++ < 5)
        names += fmt::format("{}{} {}", names.empty() ? "" : ", ", id, op->kind().type);
    throw Error(
        ErrorCode::kInvalidIr,
        fmt::format("ops in a circle: in {}, {} ops wait for each other by operands and ordering edges: {}{}",
                    described(graph_), count, names, count > 5 ? ", ..." : ""));
  }

  const Graph& graph_;
  const Prefer prefer_;
  std::map<const Op*, State> states_;
  std::map<const Tensor*, int64_t> readers_;
  std::set<const Tensor*> kept_;
  std::set<Key> ready_;
};

}  // namespace

std::vector<Op*> Graph::schedule() const {
  Scheduler scheduler(*this);
  if (writes_by_reference(*this)) scheduler.keep_writes_of_calls(Scheduler(*this, Prefer::kFirstMade).run());
  return scheduler.run();
}

}  // namespace ipu::popxl
