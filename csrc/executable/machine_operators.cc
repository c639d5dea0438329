#include "executable/machine_operators.h"

#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "ir/node_marks.h"
#include "ir/structure.h"
#include "passes/pass.h"

namespace ipu::executable {
namespace {

bool is_repeated(const ir::Op& op) {
  return op.settings.recompute == ir::Recompute::kRecompute && op.settings.context == ir::Context::kBackward;
}

std::string node_of(const ir::Op& op) {
  return op.origin == nullptr ? "" : op.origin->attributes.text(ir::kOriginNode, "");
}

class Reader {
 public:
  explicit Reader(const ir::Module& machine) {
    for (const auto& graph : machine.graphs())
      for (const auto& op : graph->ops())
        if (op->is(ir::kind::kRingPush)) pushes_[symbol(*op, "ring")] = op.get();
    for (const auto& graph : machine.graphs())
      for (const auto& op : graph->ops()) {
        add_operator(*op);
        if (op->is(ir::kind::kIpuCopy) || op->is(ir::kind::kRingPop)) add_crossing(*op, machine);
      }
  }

  MachineOperators found;

 private:
  static std::string symbol(const ir::Op& op, const char* name) {
    return std::get<Symbol>(*op.attributes.find(name)).name;
  }

  void add_operator(const ir::Op& op) {
    const std::string node = node_of(op);
    if (node.empty()) return;
    const bool is_forward = op.settings.context == ir::Context::kForward;
    if (is_forward) found.there.insert(node);
    if (op.settings.stage) found.stages[{node, !is_forward}] = static_cast<int>(*op.settings.stage);
    if (op.settings.recompute == ir::Recompute::kRecompute)
      (is_forward ? found.marked : found.repeated).insert(node);
  }

  void add_crossing(const ir::Op& op, const ir::Module& machine) {
    Crossing made;
    if (op.is(ir::kind::kRingPop)) {
      const ir::Ring& ring = *machine.find_ring(symbol(op, "ring"));
      const auto push = pushes_.find(ring.name);
      if (push == pushes_.end()) return;
      made.from_ipu = ring.from_ipu;
      made.to_ipu = ring.to_ipu;
      made.from_stage = push->second->settings.stage.value_or(-1);
      made.to_stage = op.settings.stage.value_or(-1);
      made.cycles = ring.capacity - 1;
    } else {
      made.from_ipu = static_cast<int>(op.attributes.integer("from"));
      made.to_ipu = static_cast<int>(op.attributes.integer("to"));
    }
    for (const ir::Use& use : op.result()->uses()) made.is_repeated_from |= is_repeated(*use.user);
    const ir::Value* source = source_of(op);
    if (const ir::Op* maker = source->producer()) {
      made.is_backward = maker->settings.context == ir::Context::kBackward && !is_repeated(*maker);
      made.node = maker->is(ir::kind::kHostLoad)       ? symbol(*maker, "stream")
                  : maker->is(ir::kind::kVariableRead) ? symbol(*maker, "variable")
                  : source->index() == 0               ? node_of(*maker)
                                         : "";  // statistics of a norm have no tensor in a model
    }
    found.crossings.push_back(std::move(made));
  }

  // Behind all copies and rings.
  const ir::Value* source_of(const ir::Op& op) const {
    const ir::Value* at = op.result();
    while (const ir::Op* maker = at->producer()) {
      if (maker->is(ir::kind::kRingPop)) {
        const auto push = pushes_.find(symbol(*maker, "ring"));
        if (push == pushes_.end()) break;
        at = push->second->operand(0);
      } else if (maker->is(ir::kind::kIpuCopy) || maker->is("io_tile_copy")) {
        at = maker->operand(0);
      } else {
        break;
      }
    }
    return at;
  }

  std::unordered_map<std::string, const ir::Op*> pushes_;  // by ring
};

// Names a value that gradient ops of `node` read. What the operator made for itself stands for the result that is a view of it,
// or else for what it was made from.
void add_read(const ir::Value& value, const std::string& node, std::set<std::string>& names) {
  const auto is_inside = [&](const ir::Value& at) {
    if (at.producer() == nullptr || node_of(*at.producer()) != node) return false;
    return at.name() != node && !at.name().starts_with(node + "_") &&
           std::isdigit(static_cast<unsigned char>(at.name()[0])) != 0;
  };
  std::vector<const ir::Value*> waiting{&value};
  std::unordered_set<const ir::Value*> seen;
  while (!waiting.empty()) {
    const ir::Value* at = waiting.back();
    waiting.pop_back();
    if (at == nullptr || !seen.insert(at).second) continue;
    const ir::Value* result = nullptr;
    for (const ir::Use& use : at->uses())
      if (use.user->is("reshape") && node_of(*use.user) == node && !is_inside(*use.user->result()))
        result = use.user->result();
    const ir::Op* maker = at->producer();
    if (!is_inside(*at))
      names.insert(maker == nullptr || node_of(*maker).empty() || at->index() != 0 ? at->name()
                                                                                   : node_of(*maker));
    else if (result != nullptr)
      waiting.push_back(result);
    else
      for (int i = 0; i < maker->operand_count(); ++i) waiting.push_back(maker->operand(i));
  }
}

}  // namespace

std::unique_ptr<ir::Module> machine_form_of(std::unique_ptr<ir::Module> module,
                                            const target::System& system) {
  passes::PassContext context;
  context.system = &system;
  passes::run_pipeline(*module, passes::named_pipelines().at("machine-form"), context,
                       passes::verify_from_environment(passes::Verify::kNever));
  return module;
}

MachineOperators machine_operators(const ir::Module& machine) { return Reader(machine).found; }

std::map<std::string, std::set<std::string>> gradient_reads(const ir::Module& module) {
  std::unordered_map<const ir::Value*, const ir::Value*> called, read;  // values → those of the forward graph
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      if (!op->is("call")) continue;
      const ir::Graph& callee = *ir::called_graphs(*op).front();
      const bool is_backward = op->settings.context == ir::Context::kBackward;
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Value *operand = op->operand(i), *inside = callee.inputs()[static_cast<size_t>(i)];
        if (!is_backward)
          called.emplace(operand, inside);
        else if (const auto at = called.find(operand); at != called.end())
          read[inside] = at->second;
      }
      for (int i = 0; !is_backward && i < op->result_count(); ++i)
        called.emplace(op->result(i), callee.outputs()[static_cast<size_t>(i)]);
    }
  std::map<std::string, std::set<std::string>> found;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      const std::string node = node_of(*op);
      if (op->settings.context != ir::Context::kBackward || node.empty()) continue;
      std::set<std::string>& names = found[node];
      for (int i = 0; i < op->operand_count(); ++i)
        if (const ir::Value* value = op->operand(i); value != nullptr && value->producer() == nullptr) {
          const auto at = read.find(value);
          add_read(at == read.end() ? *value : *at->second, node, names);
        }
    }
  return found;
}

}  // namespace ipu::executable
