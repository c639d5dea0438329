// Authored form → functional form: what an op wrote into the memory of a value becomes a new value; graphs
// that write to their inputs return the new contents as further results, and call sites that marked the
// operand as modified go on with them. Order edges are spent: the list keeps their order. First proves that
// the program says in which order each write and every other access of that memory happen, by operands or
// order edges; a program that leaves it open is refused (enableInplaceAmbiguityChecking of PopART). Not here:
// views that share memory (results of ops are memory of their own in the authored form), and writes to
// variables (`variable.assign`). A pipeline does not modify its operands.
// The proof looks from an access back to the write, through the ops listed between: linear when accesses of
// one memory are near each other.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

using Values = std::vector<ir::Value*>;
using Integers = std::vector<int64_t>;

std::string where(const ir::Op& op) {
  return fmt::format("'{}'{}", op.kind(),
                     op.location ? fmt::format(" ({})", ir::to_string(op.location)) : "");
}

[[noreturn]] void refuse(const ir::Op& op, const std::string& what) {
  throw Error(ErrorCode::kInvalidIr, what).at(ir::user_line(op.location));
}

Values operands_of(const ir::Op& op) {
  Values values;
  for (int i = 0; i < op.operand_count(); ++i) values.push_back(op.operand(i));
  return values;
}

// Operands whose memory the op changes.
Integers written_operands(const ir::Op& op) {
  if (op.is(ir::kind::kWrite)) return {0};
  return op.attributes.integers("modified", {});
}

// --- the proof of order

class OrderCheck {
 public:
  explicit OrderCheck(const ir::Graph& graph) : graph_(graph) {}

  void run() {
    std::unordered_set<const ir::Value*> memories;  // those that are written at all
    for (const auto& op : graph_.ops())
      for (int64_t i : written_operands(*op)) memories.insert(op->operand(static_cast<int>(i)));
    if (memories.empty()) return;
    int64_t position = 0;
    for (const auto& op : graph_.ops()) position_[op.get()] = position++;
    for (const auto& op : graph_.ops()) {
      poll_interruption();
      Integers written = written_operands(*op);
      std::unordered_set<const ir::Value*> seen;
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Value* memory = op->operand(i);
        if (!memories.contains(memory) || !seen.insert(memory).second) continue;
        bool writes = false;
        for (int64_t w : written) writes = writes || op->operand(static_cast<int>(w)) == memory;
        access(*op, memory, writes);
      }
    }
  }

 private:
  struct Accesses {
    const ir::Op* last_write = nullptr;
    std::vector<const ir::Op*> reads;  // since then
  };

  void access(const ir::Op& op, const ir::Value* memory, bool writes) {
    Accesses& known = accesses_[memory];
    if (known.last_write != nullptr) demand(*known.last_write, op, memory);
    if (!writes) {
      known.reads.push_back(&op);
      return;
    }
    for (const ir::Op* read : known.reads) demand(*read, op, memory);
    known = {&op, {}};
  }

  void demand(const ir::Op& earlier, const ir::Op& later, const ir::Value* memory) {
    if (reaches(earlier, later)) return;
    refuse(later, fmt::format(
                      "ambiguous order: %{} of @{} is accessed by {} and by {}, "
                      "one of them writes to it, and neither operands nor order edges say which comes first. "
                      "Put both in an in_sequence context.",
                      memory->name(), graph_.name(), where(earlier), where(later)));
  }

  // Whether `later` needs `earlier` to have run. Order edges first: in_sequence makes them short.
  bool reaches(const ir::Op& earlier, const ir::Op& later) {
    std::unordered_set<const ir::Op*> seen{&later};
    std::vector<const ir::Op*> stack{&later};
    int64_t oldest = position_.at(&earlier);
    while (!stack.empty()) {
      const ir::Op* op = stack.back();
      stack.pop_back();
      if (op == &earlier) return true;
      auto look = [&](const ir::Op* before) {
        if (before != nullptr && position_.at(before) >= oldest && seen.insert(before).second)
          stack.push_back(before);
      };
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr) look(op->operand(i)->producer());
      for (const ir::Op* before : op->after) look(before);
    }
    return false;
  }

  const ir::Graph& graph_;
  std::unordered_map<const ir::Op*, int64_t> position_;
  std::unordered_map<const ir::Value*, Accesses> accesses_;
};

// --- the rewrite

class Functionalize : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    module_ = &module;
    context_ = &context;
    written_.clear();
    bool changed = ir::complete_calls(module);
    for (const auto& graph : module.graphs()) OrderCheck(*graph).run();
    std::vector<ir::Graph*> order = callees_first(module);  // before wrappers are added
    for (ir::Graph* graph : order) changed = rewrite(*graph) || changed;
    return changed;
  }

 private:
  // Current contents of each memory, while the ops of a graph are walked in order.
  using Contents = std::unordered_map<ir::Value*, ir::Value*>;
  static ir::Value* current(const Contents& contents, ir::Value* value) {
    auto at = contents.find(value);
    return at == contents.end() ? value : at->second;
  }

  bool rewrite(ir::Graph& graph) {
    bool changed = false;
    for (const auto& op : graph.ops()) {
      changed = changed || !op->after.empty();
      op->after.clear();
    }
    for (ir::Value* input : graph.inputs()) {
      changed = changed || input->by_reference;
      input->by_reference = false;
    }
    Contents contents;
    ir::Op* next = nullptr;
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().front().get(); op != nullptr; op = next) {
      poll_interruption();
      next = graph.next(op);
      Values memories = operands_of(*op);
      for (int i = 0; i < op->operand_count(); ++i)
        if (ir::Value* value = op->operand(i); value != nullptr && current(contents, value) != value)
          op->set_operand(i, current(contents, value));
      if (op->is(ir::kind::kWrite))
        contents[memories[0]] = written_value(*op);
      else if (ir::is_call(*op))
        rewrite_call(*op, memories, contents);
      else if (op->is(ir::kind::kLoop))
        op = rewrite_loop(*op, memories, contents);
      else if (op->is(ir::kind::kIf))
        op = rewrite_if(*op, memories, contents);
      else if (op->is(ir::kind::kPipeline))
        refuse_pipeline(*op);
      if (op->is(ir::kind::kWrite)) {
        graph.erase(op);
        context_->count("writes replaced");
        changed = true;
      }
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      ir::Value* output = graph.outputs()[i];
      if (current(contents, output) != output)
        graph.set_output(static_cast<int>(i), current(contents, output));
    }
    // New contents of inputs become further outputs.
    Integers& written = written_[&graph];
    for (ir::Value* input : graph.inputs()) {
      if (current(contents, input) == input) continue;
      graph.append_output(current(contents, input));
      written.push_back(input->index());
    }
    return std::exchange(sites_changed_, false) || changed;
  }

  ir::Value* written_value(ir::Op& op) {
    if (!op.attributes.has("sizes")) return op.operand(1);
    ir::Builder builder(op.graph(), &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    Attributes region;
    for (const char* name : {"starts", "sizes", "steps"}) region.set(name, op.attributes.integers(name));
    return ops::build(builder, "slice_scatter", {op.operand(0), op.operand(1)}, std::move(region),
                      op.operand(0)->name());
  }

  const Integers& written_inputs(const ir::Graph* graph) { return written_[graph]; }

  // The marks of a site as operand numbers; the attribute goes.
  std::unordered_set<int64_t> take_marks(ir::Op& op, const Values& memories) {
    Integers list = op.attributes.integers("modified", {});
    std::unordered_set<int64_t> marks(list.begin(), list.end());
    std::unordered_set<const ir::Value*> once;
    for (int64_t i : marks)
      if (!once.insert(memories[static_cast<size_t>(i)]).second)
        refuse(op, fmt::format("ambiguous modification: {} modifies %{} through two operands.", where(op),
                               memories[static_cast<size_t>(i)]->name()));
    if (op.attributes.erase("modified")) sites_changed_ = true;
    return marks;
  }

  void rewrite_call(ir::Op& op, const Values& memories, Contents& contents) {
    std::unordered_set<int64_t> marks = take_marks(op, memories);
    for (int64_t input : written_inputs(ir::called_graphs(op).at(0))) {
      size_t i = static_cast<size_t>(input);
      ir::Value* result = op.append_result(op.operand(static_cast<int>(input))->type(), memories[i]->name());
      sites_changed_ = true;
      if (marks.contains(input)) contents[memories[i]] = result;  // else the callee worked on a copy
    }
  }

  // Op in its new shape: the same kind with other operands, results and attributes, in the same place.
  ir::Op* replace(ir::Op& op, const Values& operands, Attributes attributes,
                  const std::vector<ir::Type>& further_results, const std::vector<std::string>& names) {
    ir::Graph* graph = op.graph();
    ir::Op* fresh = graph->create(op.kind(), operands, std::move(attributes), {}, &op);
    fresh->settings = op.settings;
    fresh->location = op.location;
    fresh->origin = op.origin;
    std::vector<std::pair<ir::Value*, std::string>> renames;
    for (int i = 0; i < op.result_count(); ++i) {
      ir::Value* result = fresh->append_result(op.result(i)->type());
      renames.emplace_back(result, op.result(i)->name());
      if (!op.result(i)->is_unused()) op.result(i)->replace_all_uses_with(result);
    }
    graph->erase(&op);
    for (auto& [value, name] : renames) graph->rename(value, name);
    for (size_t i = 0; i < further_results.size(); ++i) fresh->append_result(further_results[i], names[i]);
    sites_changed_ = true;
    return fresh;
  }

  // An invariant the body writes to and the loop marks is carried from one iteration to the next; unmarked,
  // every iteration works on a copy. The body keeps its interface and is called from a new one.
  ir::Op* rewrite_loop(ir::Op& op, const Values& memories, Contents& contents) {
    std::unordered_set<int64_t> marks = take_marks(op, memories);
    ir::Graph* body = ir::called_graphs(op).at(0);
    const ir::Region loop(op);
    const int carried = loop.carried();
    for (int64_t i : marks)
      if (loop.is_carried(static_cast<int>(i)))
        refuse(op, fmt::format("ambiguous modification: {} carries operand {} and modifies it too. "
                               "Its result is the new value.",
                               where(op), i));
    const Integers& written = written_inputs(body);
    if (written.empty()) return &op;
    std::vector<int> order;  // operands in their new order: carried, now carried, invariant
    std::vector<int> now_carried;
    for (int64_t input : written)
      if (int i = loop.operand(static_cast<int>(input)); loop.is_invariant(i) && marks.contains(i))
        now_carried.push_back(i);
    for (int i = 0; i < carried; ++i) order.push_back(i);
    order.insert(order.end(), now_carried.begin(), now_carried.end());
    for (int i = carried; i < op.operand_count(); ++i)
      if (std::find(now_carried.begin(), now_carried.end(), i) == now_carried.end()) order.push_back(i);

    ir::Graph* wrapper = module_->add_graph(body->name() + "_functional");
    Values arguments(body->inputs().size());
    arguments[0] = wrapper->add_input(body->inputs()[0]->type(), body->inputs()[0]->name());
    Values operands;
    for (int i : order) {
      const ir::Value* input = body->inputs()[static_cast<size_t>(loop.input(i))];
      arguments[static_cast<size_t>(loop.input(i))] = wrapper->add_input(input->type(), input->name());
      operands.push_back(op.operand(i));
    }
    Values results = call_from(*wrapper, *body, arguments, op);
    size_t own = body->outputs().size() - written.size();
    for (size_t i = 0; i < own; ++i) wrapper->append_output(results[i]);
    for (size_t k = 0; k < written.size(); ++k)
      if (std::find(now_carried.begin(), now_carried.end(), loop.operand(static_cast<int>(written[k]))) !=
          now_carried.end())
        wrapper->append_output(results[own + k]);

    Attributes attributes = op.attributes;
    attributes.set("body", Symbol{wrapper->name()});
    attributes.set("carried", static_cast<int64_t>(carried) + static_cast<int64_t>(now_carried.size()));
    std::vector<ir::Type> types;
    std::vector<std::string> names;
    for (int i : now_carried) {
      types.push_back(op.operand(i)->type());
      names.push_back(memories[static_cast<size_t>(i)]->name());
    }
    ir::Op* fresh = replace(op, operands, std::move(attributes), types, names);
    for (size_t k = 0; k < now_carried.size(); ++k)
      contents[memories[static_cast<size_t>(now_carried[k])]] = fresh->result(carried + static_cast<int>(k));
    return fresh;
  }

  // Marked operands that one of the branches writes to become results of both.
  ir::Op* rewrite_if(ir::Op& op, const Values& memories, Contents& contents) {
    std::unordered_set<int64_t> marks = take_marks(op, memories);
    std::vector<ir::Graph*> branches = ir::called_graphs(op);
    std::vector<int> written;  // operands, those marked and written by a branch
    bool any = false;
    for (const ir::Graph* branch : branches) {
      any = any || !written_inputs(branch).empty();
      for (int64_t input : written_inputs(branch))
        if (int i = static_cast<int>(input) + 1;
            marks.contains(i) && std::find(written.begin(), written.end(), i) == written.end())
          written.push_back(i);
    }
    if (!any) return &op;
    std::sort(written.begin(), written.end());
    Attributes attributes = op.attributes;
    for (size_t b = 0; b < branches.size(); ++b) {
      ir::Graph* wrapper = module_->add_graph(branches[b]->name() + "_functional");
      Values arguments;
      for (const ir::Value* input : branches[b]->inputs())
        arguments.push_back(wrapper->add_input(input->type(), input->name()));
      Values results = call_from(*wrapper, *branches[b], arguments, op);
      const Integers& own_written = written_inputs(branches[b]);
      size_t own = branches[b]->outputs().size() - own_written.size();
      for (size_t i = 0; i < own; ++i) wrapper->append_output(results[i]);
      for (int i : written) {
        auto at = std::find(own_written.begin(), own_written.end(), i - 1);
        wrapper->append_output(at == own_written.end()
                                   ? arguments[static_cast<size_t>(i) - 1]
                                   : results[own + static_cast<size_t>(at - own_written.begin())]);
      }
      attributes.set(b == 0 ? "then" : "else", Symbol{wrapper->name()});
    }
    std::vector<ir::Type> types;
    std::vector<std::string> names;
    for (int i : written) {
      types.push_back(op.operand(i)->type());
      names.push_back(memories[static_cast<size_t>(i)]->name());
    }
    int before = op.result_count();
    ir::Op* fresh = replace(op, operands_of(op), std::move(attributes), types, names);
    for (size_t k = 0; k < written.size(); ++k)
      contents[memories[static_cast<size_t>(written[k])]] = fresh->result(before + static_cast<int>(k));
    return fresh;
  }

  static Values call_from(ir::Graph& wrapper, ir::Graph& callee, const Values& arguments,
                          const ir::Op& site) {
    ir::Builder builder(&wrapper);
    builder.settings = site.settings;
    builder.location = site.location;
    return builder.call(&callee, arguments);
  }

  void refuse_pipeline(const ir::Op& op) {
    for (const ir::Graph* stage : ir::called_graphs(op))
      if (!written_inputs(stage).empty())
        refuse(op, fmt::format("unsupported write: stage @{} of {} writes to its inputs. "
                               "Carry the value through the pipeline instead.",
                               stage->name(), where(op)));
  }

  ir::Module* module_ = nullptr;
  const PassContext* context_ = nullptr;
  std::unordered_map<const ir::Graph*, Integers>
      written_;  // inputs whose new contents a graph returns, after its outputs
  bool sites_changed_ = false;
};

IPU_REGISTER_PASS(Functionalize, "functionalize", "Turns writes to values into new values.",
                  {"writes replaced"});

}  // namespace
}  // namespace ipu::passes
