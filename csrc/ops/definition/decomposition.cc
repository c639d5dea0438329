// Parts of compounds and the gradients that follow from them. Definitions of gradients: compound_gradient.cc.
#include "ops/definition/decomposition.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/definition/effects.h"
#include "ops/definition/op_gradients.h"
#include "ops/interpreter/interpreter.h"
#include "support/error.h"

namespace ipu::ops {

Parts build_parts(ir::Op& op) {
  ir::Graph& graph = *op.graph();
  const ir::Op* before = graph.previous(&op);
  Parts parts;
  parts.results = definition(op)->decompose(op);
  IPU_CHECK(static_cast<int>(parts.results.size()) == op.result_count(),
            "'" + op.kind() + "' decomposes to another number of results");
  ir::Op* at = before == nullptr ? graph.ops().front().get() : graph.next(before);
  for (; at != &op; at = graph.next(at)) parts.ops.push_back(at);
  return parts;
}

void erase_unused(const Parts& parts, const std::vector<ir::Value*>& keep) {
  const std::unordered_set<const ir::Value*> kept(keep.begin(), keep.end());
  for (auto at = parts.ops.rbegin(); at != parts.ops.rend(); ++at) {
    ir::Op* op = *at;
    bool is_unused = !has_side_effects(*op);
    for (int i = 0; i < op->result_count(); ++i)
      is_unused = is_unused && op->result(i)->is_unused() && !kept.contains(op->result(i));
    if (is_unused) op->graph()->erase(op);
  }
}

std::vector<ir::Value*> Repeated::wanted(const std::vector<bool>& needs) const {
  std::vector<ir::Value*> values(operands.size(), nullptr);
  for (size_t i = 0; i < operands.size(); ++i)
    if (needs[i]) values[i] = operands[i];
  return values;
}

Repeated repeat(ir::Builder& builder, std::string_view kind, const std::vector<ir::Value*>& operands,
                const Attributes& attributes, const std::vector<ir::Type>& results) {
  Repeated again;
  std::unordered_set<const ir::Value*> seen;
  for (ir::Value* operand : operands) {
    if (operand != nullptr && !seen.insert(operand).second) operand = build(builder, "nop", {operand});
    again.operands.push_back(operand);
  }
  ir::Op* op = builder.create(kind, again.operands, attributes, results);
  again.parts = build_parts(*op);
  op->graph()->erase(op);
  return again;
}

namespace {

class Sweep {
 public:
  Sweep(const Parts& parts, const std::vector<ir::Value*>& required, ir::Builder& builder,
        const GradientBuilder::Fetch& fetch)
      : parts_(parts), builder_(builder), fetch_(fetch), active_(required.begin(), required.end()) {
    active_.erase(nullptr);
    for (const ir::Op* op : parts.ops) {
      const OpDef* def = definition(*op);
      if (def != nullptr && def->gradient_kind == GradientKind::kZero) continue;
      bool reads = false;
      for (int i = 0; i < op->operand_count(); ++i) reads = reads || active_.contains(op->operand(i));
      for (int i = 0; reads && i < op->result_count(); ++i)
        if (is_floating_point(op->result(i)->type().dtype)) active_.insert(op->result(i));
    }
  }

  void add(const ir::Value* value, ir::Value* gradient) {
    if (gradient != nullptr && active_.contains(value)) contributions_[value].push_back(gradient);
  }

  void run() {
    for (auto at = parts_.ops.rbegin(); at != parts_.ops.rend(); ++at) visit(**at);
  }

  // Contributions arrive from the last reader to the first; they are summed in order of the parts.
  ir::Value* accumulated(const ir::Value* value) {
    auto at = contributions_.find(value);
    if (at == contributions_.end()) return nullptr;
    std::vector<ir::Value*>& terms = at->second;
    if (terms.size() > 1) {
      std::reverse(terms.begin(), terms.end());
      terms = {build_op(builder_, "add_n", terms)->result()};
    }
    return terms.front();
  }

 private:
  void visit(const ir::Op& op) {
    std::vector<ir::Value*> upstream;
    bool is_reached = false;
    for (int i = 0; i < op.result_count(); ++i) {
      upstream.push_back(accumulated(op.result(i)));
      is_reached = is_reached || upstream.back() != nullptr;
    }
    if (!is_reached) return;
    std::vector<bool> needs;
    for (int i = 0; i < op.operand_count(); ++i)
      needs.push_back(op.operand(i) != nullptr && active_.contains(op.operand(i)));
    const std::vector<ir::Value*> gradients = gradients_of_op(op, upstream, needs, builder_, fetch_);
    for (int i = 0; i < op.operand_count(); ++i)
      if (needs[i]) add(op.operand(i), gradients[i]);
  }

  const Parts& parts_;
  ir::Builder& builder_;
  const GradientBuilder::Fetch& fetch_;
  std::unordered_set<const ir::Value*> active_;
  std::unordered_map<const ir::Value*, std::vector<ir::Value*>> contributions_;
};

}  // namespace

std::vector<ir::Value*> gradients_of_parts(const Parts& parts, const std::vector<ir::Value*>& upstream,
                                           const std::vector<ir::Value*>& required, ir::Builder& builder,
                                           const GradientBuilder::Fetch& fetch) {
  Sweep sweep(parts, required, builder, fetch);
  for (size_t i = 0; i < parts.results.size(); ++i) sweep.add(parts.results[i], upstream[i]);
  sweep.run();
  std::vector<ir::Value*> gradients;
  for (const ir::Value* value : required)
    gradients.push_back(value == nullptr ? nullptr : sweep.accumulated(value));
  return gradients;
}

namespace {

// A compound or what is expanded alone on inputs of these types (nullptr: absent), in its parts: its results are the graph's.
struct Alone {
  ir::Module module;
  ir::Graph* graph = module.add_graph("compound");

  Alone(const OpDef& def, const std::vector<const ir::Type*>& types, const Attributes& attributes,
        const ir::Settings& settings = {}) {
    std::vector<ir::Value*> operands;
    for (const ir::Type* type : types)
      operands.push_back(type == nullptr ? nullptr : graph->add_input({type->dtype, type->shape}));
    ir::Builder builder(graph);
    builder.settings = settings;
    ir::Op* op = build_op(builder, def.name, operands, attributes);
    for (ir::Value* result : def.decompose ? def.decompose(*op) : def.expand(builder, *op))
      graph->append_output(result);
    graph->erase(op);
  }
};

}  // namespace

void decomposed_reference(const OpDef& def, ReferenceCall& call) {
  std::vector<const ir::Type*> types;
  std::vector<ReferenceTensor> inputs;
  for (const ReferenceTensor* operand : call.operands) {
    types.push_back(operand == nullptr ? nullptr : &operand->type);
    if (operand != nullptr) inputs.push_back(*operand);
  }
  const Alone alone(def, types, call.attributes);
  std::vector<ReferenceTensor> results =
      Interpreter(alone.module, Arithmetic::kF64, 1).run(*alone.graph, std::move(inputs));
  for (size_t i = 0; i < results.size(); ++i) call.results[i]->values = std::move(results[i].values);
}

OpWork work_of_parts(const ir::Op& op) {
  std::vector<const ir::Type*> types;
  for (int i = 0; i < op.operand_count(); ++i)
    types.push_back(op.operand(i) == nullptr ? nullptr : &op.operand(i)->type());
  const Alone alone(*definition(op), types, op.attributes, op.settings);
  OpWork work;
  for (const auto& part : alone.graph->ops()) {
    OpWork own = work_of(*part);
    std::ranges::move(own.phases, std::back_inserter(work.phases));
    work.is_guess = work.is_guess || own.is_guess;
  }
  return work;
}

}  // namespace ipu::ops
