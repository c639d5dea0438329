#include "report/live_values.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ops/definition/effects.h"
#include "support/checked.h"
#include "support/error.h"

namespace ipu::report {
namespace {

using ir::Value;

// A piece of memory that values lie in, and how many readings of them are still to come.
struct Memory {
  int64_t bytes = 0;
  const Value* value = nullptr;  // it was made for
  int ipu = -1;                  // its place in the list; -1: of an input, until something is made in it
  int64_t readings = 0;          // outputs of the graph are never read to the end
  int input = -1;                // of the graph: it belongs to who runs the graph
  bool is_own = true;            // made here, and counted here
  bool may_change = true;        // constants and variables that nothing is assigned to stay as they are
};

// The most of memory made inside a graph, and the op that ran then.
struct Peak {
  Checked bytes = 0;
  const ir::Op* op = nullptr;
};

// What who runs a graph has to know of it.
struct Summary {
  std::vector<Peak> peak;       // by IPU
  std::vector<char> changes;    // by input: its memory is overwritten
  std::vector<int> input_ipu;   // by input: where it lies, -1: nothing says so
  std::vector<int> output_in;   // by output: the input in whose memory it lies, -1: in new memory
  std::vector<int> output_ipu;  // by output: where it lies
};

using Summaries = std::unordered_map<const ir::Graph*, Summary>;

class Walk {
 public:
  Walk(const ir::Graph& graph, const std::vector<int>& ipus, const Summaries& known, const Extra& extra)
      : graph_(graph), ipus_(ipus), known_(known), extra_(extra), live_(ipus.size(), 0) {
    summary_.peak.assign(ipus.size(), {});
    summary_.changes.assign(graph.inputs().size(), 0);
  }

  Summary run() {
    begin();
    for (const auto& op : graph_.ops()) step(*op);
    for (const Value* output : graph_.outputs()) {
      const Memory& memory = memories_[memory_.at(output)];
      summary_.output_in.push_back(memory.input);
      summary_.output_ipu.push_back(memory.ipu >= 0 ? memory.ipu : place_of(*output));
    }
    for (const Value* input : graph_.inputs()) summary_.input_ipu.push_back(memories_[memory_.at(input)].ipu);
    return std::move(summary_);
  }

  // Of the memory made in this graph, what is alive on an IPU at the peak there; the body that has more at that moment, or nullptr.
  const ir::Graph* find_peak(size_t ipu, std::vector<Moment::Live>* values) {
    const Peak wanted = known_.at(&graph_).peak[ipu];
    if (wanted.op == nullptr) return nullptr;
    begin();
    found_ = {ipu, wanted, nullptr, values};
    for (const auto& op : graph_.ops()) {
      step(*op);
      if (op.get() == wanted.op) break;
    }
    return found_->body;
  }

 private:
  struct Found {
    size_t ipu;
    Peak wanted;
    const ir::Graph* body;
    std::vector<Moment::Live>* values;
  };

  void begin() {
    for (const Value* input : graph_.inputs())
      put(*input, add({.bytes = input->type().bytes(),
                       .value = input,
                       .ipu = input->ipu ? place_of(*input) : -1,
                       .input = input->index(),
                       .is_own = false}));
    find_variables();
  }

  // `bytes` are alive on an IPU while `op` runs, of which `body` has those that are not alive here.
  void look(size_t ipu, Checked bytes, const ir::Op& op, const ir::Graph* body = nullptr) {
    Peak& peak = summary_.peak[ipu];
    if (bytes > peak.bytes) peak = {bytes, &op};
    if (!found_ || found_->ipu != ipu || found_->wanted.op != &op || found_->wanted.bytes != bytes) return;
    found_->body = body;
    found_->values->clear();
    for (const Memory& memory : memories_)
      if (memory.is_own && memory.ipu == static_cast<int>(ipu))
        found_->values->push_back({memory.value, memory.bytes});
  }

  // All readings of a variable read one memory, in which new values may be made where one is assigned.
  void find_variables() {
    std::unordered_set<std::string_view> assigned;
    for (const auto& op : graph_.ops())
      if (op->is(ir::kind::kVariableAssign)) assigned.insert(op->attributes.symbol("variable").name);
    for (const auto& op : graph_.ops()) {
      if (!op->is(ir::kind::kVariableRead)) continue;
      const std::string& name = op->attributes.symbol("variable").name;
      auto [at, is_new] = variables_.try_emplace(name, 0);
      if (is_new)
        at->second = add({.bytes = op->result()->type().bytes(),
                          .value = op->result(),
                          .is_own = false,
                          .may_change = assigned.contains(name)});
      put(*op->result(), at->second);
    }
  }

  void step(const ir::Op& op) {
    if (op.is(ir::kind::kVariableRead)) return;
    current_ = &op;
    dying_.clear();
    for (int i = 0; i < op.operand_count(); ++i) {
      if (op.operand(i) == nullptr) continue;
      const size_t at = memory_.at(op.operand(i));
      if (--memories_[at].readings == 0) dying_.push_back(at);
    }
    if (ir::is_region(op))
      run_bodies(op);
    else
      compute(op);
    for (const size_t at : dying_)
      if (memories_[at].readings == 0) leave(at);
    for (int i = 0; i < op.result_count(); ++i)  // those that nobody reads
      if (const size_t at = memory_.at(op.result(i)); memories_[at].readings == 0) leave(at);
  }

  void compute(const ir::Op& op) {
    for (int i = 0; i < op.result_count(); ++i) {
      const Value& result = *op.result(i);
      const int64_t bytes = result.type().bytes();
      if (op.is(ir::kind::kConstant)) {
        put(result, add({.bytes = bytes, .value = &result, .is_own = false, .may_change = false}));
        continue;
      }
      const ir::ViewRule* view = ops::view_rule(op);
      if (view != nullptr && !view->all_operands && op.operand(0) != nullptr) {
        put(result, memory_.at(op.operand(0)));
        continue;
      }
      size_t chosen = memories_.size();
      for (int k = 0; k < reusable_operands(op, i); ++k) {
        if (op.operand(k) == nullptr) continue;
        const size_t at = memory_.at(op.operand(k));
        if (!may_take(at, bytes)) continue;
        // What a graph returns best lies where its caller keeps it.
        if (chosen == memories_.size() ||
            (result.is_output() && memories_[at].input >= 0 && memories_[chosen].input < 0))
          chosen = at;
      }
      if (chosen == memories_.size())
        chosen = make(bytes, result, place_of(result));
      else
        change(chosen, place_of(result));
      put(result, chosen);
    }
    if (!extra_) return;
    if (const int64_t more = extra_(op); more > 0) {
      const auto ipu = static_cast<size_t>(op.result_count() > 0 ? place_of(*op.result()) : 0);
      look(ipu, live_[ipu] + more, op);
    }
  }

  // A loop keeps what it carries in one place; a call or a branch works in the memory of what nobody reads again. Where that
  // cannot be, a copy is made before the bodies run.
  void run_bodies(const ir::Op& op) {
    const ir::Region region(op);
    std::vector<const Summary*> bodies;
    for (const ir::Graph* body : region.bodies()) bodies.push_back(&known_.at(body));
    std::vector<size_t> lies_in(static_cast<size_t>(op.operand_count()), 0);
    for (int k = 0; k < op.operand_count(); ++k) {
      if (op.operand(k) == nullptr) continue;
      size_t& at = lies_in[static_cast<size_t>(k)] = memory_.at(op.operand(k));
      if (!changes(region, bodies, k)) continue;
      const int64_t bytes = op.operand(k)->type().bytes();
      const int where = place_under(region, bodies, k);
      if (!(region.repeats() && !region.is_carried(k)) && may_take(at, bytes))
        change(at, where);
      else
        dying_.push_back(at = make(bytes, *op.operand(k), where));
    }
    for (size_t ipu = 0; ipu < live_.size(); ++ipu) {
      Checked inside = 0;
      const ir::Graph* most = nullptr;
      for (const ir::Graph* body : region.bodies())
        if (const Checked bytes = known_.at(body).peak[ipu].bytes; bytes > inside) {
          inside = bytes;
          most = body;
        }
      look(ipu, live_[ipu] + inside, op, most);
    }
    for (int i = 0; i < op.result_count(); ++i) {
      const int operand = operand_under(region, bodies, i);
      const size_t output = static_cast<size_t>(region.output(i));
      put(*op.result(i), operand >= 0 ? lies_in[static_cast<size_t>(operand)]
                                      : make(op.result(i)->type().bytes(), *op.result(i),
                                             bodies.at(0)->output_ipu.at(output)));
    }
  }

  // Is the memory of operand `k` overwritten, if it may be?
  static bool changes(const ir::Region& region, const std::vector<const Summary*>& bodies, int k) {
    const int input = region.input(k);
    if (input < 0) return false;
    if (region.repeats() && region.is_carried(k))
      return std::any_of(bodies.begin(), bodies.end(), [&](const Summary* body) {
        return body->changes.at(static_cast<size_t>(input)) != 0 ||
               body->output_in.at(static_cast<size_t>(region.output(k))) != input;
      });
    return std::any_of(bodies.begin(), bodies.end(), [&](const Summary* body) {
      return body->changes.at(static_cast<size_t>(input)) != 0;
    });
  }

  // Where the memory of operand `k` is that the bodies overwrite: where they say, or where a loop makes its next value.
  int place_under(const ir::Region& region, const std::vector<const Summary*>& bodies, int k) const {
    for (const Summary* body : bodies)
      if (const int ipu = body->input_ipu.at(static_cast<size_t>(region.input(k))); ipu >= 0) return ipu;
    if (region.repeats() && region.is_carried(k))
      return bodies.at(0)->output_ipu.at(static_cast<size_t>(region.output(k)));
    return place_of(*region.op().operand(k));
  }

  // The operand in whose memory result `i` lies; -1: in memory of its own.
  static int operand_under(const ir::Region& region, const std::vector<const Summary*>& bodies, int i) {
    if (region.repeats()) return i;  // carried
    int input = -1;
    for (size_t b = 0; b < bodies.size(); ++b) {
      const int of_body = bodies[b]->output_in.at(static_cast<size_t>(region.output(i)));
      if (b > 0 && of_body != input) return -1;
      input = of_body;
    }
    return input < 0 ? -1 : region.operand(input);
  }

  // Result `i` may be made in the memory of one of the first so many operands.
  static int reusable_operands(const ir::Op& op, int i) {
    if (ops::has_trait(op, ops::kElementwise)) return op.operand_count();
    return i == 0 && ops::has_trait(op, ops::kMayReuseFirstOperand) ? 1 : 0;
  }
  bool may_take(size_t at, int64_t bytes) const {
    const Memory& memory = memories_[at];
    return memory.readings == 0 && memory.may_change && memory.bytes == bytes;
  }
  void change(size_t at, int ipu) {
    if (memories_[at].ipu < 0) memories_[at].ipu = ipu;
    if (memories_[at].input >= 0) summary_.changes[static_cast<size_t>(memories_[at].input)] = 1;
  }

  size_t add(Memory memory) {
    memories_.push_back(memory);
    return memories_.size() - 1;
  }
  size_t make(int64_t bytes, const Value& value, int ipu) {
    const size_t at = add({.bytes = bytes, .value = &value, .ipu = ipu});
    Checked& live = live_[static_cast<size_t>(ipu)];
    live += bytes;
    look(static_cast<size_t>(ipu), live, *current_);
    return at;
  }
  void put(const Value& value, size_t at) {
    memory_[&value] = at;
    memories_[at].readings += std::ssize(value.uses()) + value.output_count();
  }
  void leave(size_t at) {
    Memory& memory = memories_[at];
    if (!memory.is_own) return;
    live_[static_cast<size_t>(memory.ipu)] -= memory.bytes;
    memory.is_own = false;  // once
  }
  int place_of(const Value& value) const {
    const auto at = std::lower_bound(ipus_.begin(), ipus_.end(), ipu_of(value));
    IPU_CHECK(at != ipus_.end() && *at == ipu_of(value), "an IPU that is not in the list");
    return static_cast<int>(at - ipus_.begin());
  }

  const ir::Graph& graph_;
  const std::vector<int>& ipus_;
  const Summaries& known_;
  const Extra& extra_;
  const ir::Op* current_ = nullptr;
  std::optional<Found> found_;
  std::vector<Memory> memories_;
  std::unordered_map<const Value*, size_t> memory_;
  std::unordered_map<std::string_view, size_t> variables_;
  std::vector<size_t> dying_;  // of the op at hand
  std::vector<Checked> live_;
  Summary summary_;
};

// Graphs that others run stand before these. A list instead of recursion: they may call each other deeply.
std::vector<const ir::Graph*> callees_first(const ir::Module& module) {
  std::vector<const ir::Graph*> order;
  std::unordered_map<const ir::Graph*, bool> is_done;
  for (const auto& root : module.graphs()) {
    std::vector<const ir::Graph*> open{root.get()};
    while (!open.empty()) {
      const ir::Graph* graph = open.back();
      if (auto [at, is_new] = is_done.try_emplace(graph, false); !is_new) {
        open.pop_back();
        if (!at->second) order.push_back(graph);
        at->second = true;
        continue;
      }
      for (const auto& op : graph->ops())
        for (const ir::Graph* callee : ir::called_graphs(*op))
          if (!is_done.contains(callee)) open.push_back(callee);
    }
  }
  return order;
}

Summaries summaries(const ir::Module& module, const std::vector<int>& ipus, const Extra& extra) {
  Summaries known;
  for (const ir::Graph* graph : callees_first(module))
    known.emplace(graph, Walk(*graph, ipus, known, extra).run());
  return known;
}

// The entry graph with the highest peak on an IPU; nullptr: there is none.
const ir::Graph* fullest_entry(const ir::Module& module, const Summaries& known, size_t ipu) {
  const ir::Graph* fullest = nullptr;
  for (const auto& [entry, name] : module.entry_points) {
    const ir::Graph* graph = module.find_graph(name);
    if (graph == nullptr) continue;
    if (fullest == nullptr || known.at(graph).peak[ipu].bytes > known.at(fullest).peak[ipu].bytes)
      fullest = graph;
  }
  return fullest;
}

}  // namespace

int ipu_of(const Value& value) {
  const ir::Op* op = value.producer();
  if (op != nullptr && op->settings.ipu) return *op->settings.ipu;
  if (value.ipu) return *value.ipu;
  for (const ir::Use& use : value.uses())
    if (use.user->settings.ipu) return *use.user->settings.ipu;
  return 0;
}

std::vector<int64_t> live_at_peak(const ir::Module& module, const std::vector<int>& ipus,
                                  const Extra& extra) {
  const Summaries known = summaries(module, ipus, extra);
  std::vector<int64_t> peak(ipus.size(), 0);
  for (size_t ipu = 0; ipu < ipus.size(); ++ipu)
    if (const ir::Graph* entry = fullest_entry(module, known, ipu); entry != nullptr)
      peak[ipu] = known.at(entry).peak[ipu].bytes.value();
  return peak;
}

std::vector<Moment> moments_of_peak(const ir::Module& module, const std::vector<int>& ipus,
                                    const Extra& extra) {
  const Summaries known = summaries(module, ipus, extra);
  std::vector<Moment> moments(ipus.size());
  for (size_t ipu = 0; ipu < ipus.size(); ++ipu) {
    const ir::Graph* graph = fullest_entry(module, known, ipu);
    if (graph == nullptr) continue;
    moments[ipu].bytes = known.at(graph).peak[ipu].bytes.value();
    while (graph != nullptr) {
      if (const ir::Op* op = known.at(graph).peak[ipu].op; op != nullptr) moments[ipu].op = op;
      std::vector<Moment::Live> values;
      graph = Walk(*graph, ipus, known, extra).find_peak(ipu, &values);
      moments[ipu].values.insert(moments[ipu].values.end(), values.begin(), values.end());
    }
  }
  return moments;
}

}  // namespace ipu::report
