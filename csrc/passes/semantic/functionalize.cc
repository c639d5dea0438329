// Authored form → functional form: what an op wrote into the memory of a value becomes a new value, of the
// base and of all views that lie in it (memory_map.h); graphs that write to their inputs return the new
// contents as further results, and call sites that marked the operand as modified go on with them. Order edges
// are spent: the list keeps their order. First proves that the program says in which order accesses happen
// (order_check.h). Not here: kinds of the authored form alone (`expand` comes before), and writes to variables
// (`variable.assign`). A pipeline does not modify its operands.
// An op without a definition may write anything: in a module of the authored form it is refused. In one of the
// functional form it stays, for there nothing writes to a value.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "passes/semantic/memory_map.h"
#include "passes/semantic/order_check.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

using Values = std::vector<ir::Value*>;
using Integers = std::vector<int64_t>;

Values operands_of(const ir::Op& op) {
  Values values;
  for (int i = 0; i < op.operand_count(); ++i) values.push_back(op.operand(i));
  return values;
}

class Functionalize : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    module_ = &module;
    context_ = &context;
    written_.clear();
    const bool is_authored = ops::form_of(module) == ir::Form::kAuthored;
    bool changed = ir::complete_calls(module);
    if (is_authored)
      for (const auto& graph : module.graphs()) {
        refuse_unknown(*graph);
        check_order(*graph);
      }
    std::vector<ir::Graph*> order = callees_first(module);  // before wrappers are added
    for (ir::Graph* graph : order) changed = rewrite(*graph) || changed;
    return changed;
  }

 private:
  static void refuse_unknown(const ir::Graph& graph) {
    for (const auto& op : graph.ops()) {
      if (ops::state_effect(*op) == ir::StateEffect::kUnknown && op->operand_count() > 0)
        refuse(*op, fmt::format(
                        "unknown effects: nobody knows whether {} of @{} writes to its operands: it has no "
                        "definition. Load the library that defines it (ops::load_custom_ops) first.",
                        described(*op), graph.name()));
      if (const ops::OpDef* def = ops::definition(*op); def != nullptr && def->modifies)
        refuse(*op, fmt::format("authored op: {} of @{} stands for several ops. Run the pass expand first.",
                                described(*op), graph.name()));
    }
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
    MemoryMap map;
    ir::Op* next = nullptr;
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().front().get(); op != nullptr; op = next) {
      poll_interruption();
      next = graph.next(op);
      const ir::Effects effects = ops::effects(*op);
      Values memories = operands_of(*op);
      const bool replaces_all = op->is(ir::kind::kWrite) && !op->attributes.has("sizes");
      for (int i = replaces_all ? 1 : 0; i < op->operand_count(); ++i)
        if (ir::Value* value = op->operand(i); value != nullptr)
          if (ir::Value* contents = map.read(value, op); contents != value) op->set_operand(i, contents);
      if (op->is(ir::kind::kWrite)) {
        map.write(memories[0], written_value(*op), *op, op);
        graph.erase(op);
        context_->count("writes replaced");
        changed = true;
      } else if (!effects.aliases.empty()) {
        rewrite_in_place(*op, effects, memories, map, next);
        changed = true;
      } else if (ir::is_call(*op)) {
        rewrite_call(*op, memories, map, next);
      } else if (op->is(ir::kind::kLoop)) {
        rewrite_loop(*op, memories, map, next);
      } else if (op->is(ir::kind::kIf)) {
        rewrite_if(*op, memories, map, next);
      } else if (op->is(ir::kind::kPipeline)) {
        refuse_pipeline(*op);
      }
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      ir::Value* output = graph.outputs()[i];
      if (ir::Value* contents = map.read(output, nullptr); contents != output)
        graph.set_output(static_cast<int>(i), contents);
    }
    // New contents of inputs become further outputs.
    Integers& written = written_[&graph];
    for (ir::Value* input : graph.inputs()) {
      ir::Value* contents = map.read(input, nullptr);
      if (contents == input) continue;
      graph.append_output(contents);
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

  // A view is an ordinary op on what its operands hold now; any other op in place gives its operand new contents.
  void rewrite_in_place(ir::Op& op, const ir::Effects& effects, const Values& memories, MemoryMap& map,
                        ir::Op* next) {
    op.attributes.erase(ir::kInPlace);
    map.add(op, effects, memories);
    for (const ir::Write& write : effects.writes)
      map.write(memories[static_cast<size_t>(write.operand)], op.result(), op, next);
    context_->count(effects.writes.empty() ? "views separated" : "writes replaced");
  }

  const Integers& written_inputs(const ir::Graph* graph) { return written_[graph]; }

  // The marks of a site as operand numbers; the attribute goes. What a marked operand lies in may reach the
  // callee once only: through two operands, nothing says which of them holds what was written. Operands before
  // `first` do not count: conditions, carried values.
  std::unordered_set<int64_t> take_marks(ir::Op& op, const Values& memories, size_t first, MemoryMap& map) {
    Integers list = op.attributes.integers("modified", {});
    std::unordered_set<int64_t> marks(list.begin(), list.end());
    if (op.attributes.erase("modified")) sites_changed_ = true;
    if (marks.empty()) return marks;
    std::unordered_map<const MemoryMap::Place*, size_t> marked;
    for (size_t i = first; i < memories.size(); ++i)
      if (marks.contains(static_cast<int64_t>(i)))
        for (const MemoryMap::Place* memory : map.place(memories[i]).memories)
          if (auto [at, is_new] = marked.emplace(memory, i); !is_new && at->second != i)
            refuse(op, fmt::format("ambiguous modification: {} modifies %{} through two operands.",
                                   described(op), memory->value->name()));
    for (size_t i = first; i < memories.size(); ++i)
      for (const MemoryMap::Place* memory : map.place(memories[i]).memories)
        if (auto at = marked.find(memory); at != marked.end() && at->second != i)
          refuse(op, fmt::format(
                         "ambiguous modification: {} modifies %{} through operand {} and takes it through "
                         "operand {} as well. Pass a copy to one of them.",
                         described(op), memory->value->name(), at->second, i));
    return marks;
  }

  void rewrite_call(ir::Op& op, const Values& memories, MemoryMap& map, ir::Op* next) {
    std::unordered_set<int64_t> marks = take_marks(op, memories, 0, map);
    for (int64_t input : written_inputs(ir::called_graphs(op).at(0))) {
      size_t i = static_cast<size_t>(input);
      ir::Value* result = op.append_result(op.operand(static_cast<int>(input))->type(), memories[i]->name());
      sites_changed_ = true;
      if (marks.contains(input))
        map.write(memories[i], result, op, next);  // else the callee worked on a copy
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
  void rewrite_loop(ir::Op& op, const Values& memories, MemoryMap& map, ir::Op* next) {
    std::unordered_set<int64_t> marks =
        take_marks(op, memories, static_cast<size_t>(ir::Region(op).carried()), map);
    ir::Graph* body = ir::called_graphs(op).at(0);
    const ir::Region loop(op);
    const int carried = loop.carried();
    for (int64_t i : marks)
      if (loop.is_carried(static_cast<int>(i)))
        refuse(op, fmt::format("ambiguous modification: {} carries operand {} and modifies it too. "
                               "Its result is the new value.",
                               described(op), i));
    const Integers& written = written_inputs(body);
    if (written.empty()) return;
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
      map.write(memories[static_cast<size_t>(now_carried[k])], fresh->result(carried + static_cast<int>(k)),
                *fresh, next);
  }

  // Marked operands that one of the branches writes to become results of both.
  void rewrite_if(ir::Op& op, const Values& memories, MemoryMap& map, ir::Op* next) {
    std::unordered_set<int64_t> marks = take_marks(op, memories, 1, map);
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
    if (!any) return;
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
      map.write(memories[static_cast<size_t>(written[k])], fresh->result(before + static_cast<int>(k)),
                *fresh, next);
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
                               stage->name(), described(op)));
  }

  ir::Module* module_ = nullptr;
  const PassContext* context_ = nullptr;
  std::unordered_map<const ir::Graph*, Integers>
      written_;  // inputs whose new contents a graph returns, after its outputs
  bool sites_changed_ = false;
};

IPU_REGISTER_PASS(Functionalize, "functionalize", "Turns writes to values into new values.",
                  {"views separated", "writes replaced"});

}  // namespace
}  // namespace ipu::passes
