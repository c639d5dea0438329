// A gradient that several stages of a pipeline have a part in (of a weight that they share) is accumulated where the parts
// are made: each stage but the last gets an accumulator of its own, and they are added when the pipeline has drained. In one
// accumulator the part of an earlier stage would wait in a ring, once for each cycle between the two. What becomes of the old
// contents and of the gradient must be linear: conversions, products with scalars that every stage can have, one sum. The additions
// come in another order, so this is for the machine form alone. Before pipeline-to-rings; pipelines of one body.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "ir/regions.h"
#include "ops/definition/build.h"
#include "ops/replicable.h"
#include "passes/effects.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

using ir::Value;

struct Step {
  ir::Op* op;
  int operand;  // that it converts or scales
};

// How a carried value becomes the next one: behind(of_old(old) + of_gradient(all parts)).
struct Accumulation {
  int carried = 0;
  std::vector<Step> of_old, of_gradient, behind;
  ir::Op* sum = nullptr;
  std::vector<ir::Op*> sums_of_parts;        // each after the one that reads it
  std::map<int, std::vector<Value*>> parts;  // by the stage that makes them
};

class Split {
 public:
  Split(ir::Op& pipeline, ir::Graph& body)
      : pipeline_(pipeline),
        region_(pipeline),
        body_(body),
        replicable_(ops::find_replicable(body, body.inputs()[0])) {}

  // Leaves the pipeline op unused if there was something to split; how many accumulators there are now besides.
  int64_t run() {
    for (int i = 0; i < region_.carried(); ++i)
      if (std::optional<Accumulation> found = find(i)) accumulations_.push_back(std::move(*found));
    if (!accumulations_.empty()) rewrite();
    return static_cast<int64_t>(fresh_.size());
  }

 private:
  static bool is_sum(const ir::Op& op) { return op.is("add") || op.is("add_n"); }
  static ir::Op* sole_user(const Value& value) {
    return value.uses().size() == 1 && !value.is_output() ? value.uses()[0].user : nullptr;
  }
  bool is_everywhere(const Value* value) const {
    if (replicable_.contains(value)) return true;
    return value->producer() == nullptr && region_.is_invariant(region_.operand(value->index()));
  }

  // The operand that an op converts, or scales by what every stage can have; -1: it does something else.
  int linear_operand(const ir::Op& op) const {
    if (!op.settings.stage || op.result_count() != 1) return -1;
    int at = -1;
    if (op.is("neg") || (op.is("cast") && is_floating_point(op.result()->type().dtype)))
      at = 0;
    else if ((op.is("mul") || op.is("div")) && is_everywhere(op.operand(1)))
      at = 0;
    else if (op.is("mul") && is_everywhere(op.operand(0)))
      at = 1;
    return at >= 0 && op.operand(at)->type().shape == op.result()->type().shape ? at : -1;
  }

  std::optional<Accumulation> find(int carried) const {
    Accumulation found;
    found.carried = carried;
    const Value* next = body_.outputs()[static_cast<size_t>(region_.output(carried))];
    std::vector<Value*> parts;
    for (const Value* value = body_.inputs()[static_cast<size_t>(region_.input(carried))]; value != next;) {
      ir::Op* user = sole_user(*value);
      if (user == nullptr) return std::nullopt;
      if (linear_operand(*user) == value->uses()[0].index) {
        (found.sum == nullptr ? found.of_old : found.behind).push_back({user, value->uses()[0].index});
      } else if (is_sum(*user) && user->settings.stage && found.sum == nullptr) {
        found.sum = user;
        for (int i = 0; i < user->operand_count(); ++i)
          if (user->operand(i) != value) parts.push_back(user->operand(i));
      } else {
        return std::nullopt;
      }
      value = user->result();
    }
    if (found.sum == nullptr || !next->uses().empty() || next->output_count() != 1) return std::nullopt;
    while (parts.size() == 1) {
      ir::Op* maker = parts[0]->producer();
      const int operand = maker == nullptr || sole_user(*parts[0]) == nullptr ? -1 : linear_operand(*maker);
      if (operand < 0) break;
      found.of_gradient.insert(found.of_gradient.begin(), {maker, operand});
      parts[0] = maker->operand(operand);
    }
    for (Value* part : parts)
      if (!collect(part, parts[0]->type(), &found)) return std::nullopt;
    return found.parts.size() > 1 ? std::optional(std::move(found)) : std::nullopt;
  }

  bool collect(Value* part, const ir::Type& type, Accumulation* found) const {
    ir::Op* maker = part->producer();
    if (part->type() != type || maker == nullptr || !maker->settings.stage || is_everywhere(part))
      return false;
    if (is_sum(*maker) && sole_user(*part) != nullptr) {
      found->sums_of_parts.push_back(maker);
      for (int i = 0; i < maker->operand_count(); ++i)
        if (!collect(maker->operand(i), type, found)) return false;
      return true;
    }
    found->parts[*maker->settings.stage].push_back(part);
    return true;
  }

  // The ops of the body move to one with more inputs, since what is carried comes first.
  void rewrite() {
    ir::Graph& body = *body_.module()->add_graph(body_.name());
    body.attributes = body_.attributes;
    std::vector<Value*> arguments;
    for (const Value* input : body_.inputs()) {
      if (static_cast<int>(arguments.size()) == region_.first_input() + region_.carried()) add_inputs(body);
      arguments.push_back(body.add_input(input->type(), input->name()));
      arguments.back()->ipu = input->ipu;
    }
    if (static_cast<int>(arguments.size()) == region_.first_input() + region_.carried()) add_inputs(body);
    std::vector<Value*> outputs = body.take_over(body_, arguments);
    size_t used = 0;
    for (const Accumulation& each : accumulations_) {
      for (const auto& [stage, parts] : each.parts) {
        const bool is_last = stage == each.parts.rbegin()->first;
        Value* old = is_last ? arguments[static_cast<size_t>(region_.input(each.carried))] : fresh_[used++];
        Value* next = accumulate(body, each, parts, old);
        if (is_last)
          outputs[static_cast<size_t>(region_.output(each.carried))] = next;
        else
          outputs.push_back(next);
      }
      erase(body, each);
    }
    for (Value* output : outputs) body.append_output(output);
    replace_pipeline(body);
  }

  void add_inputs(ir::Graph& body) {
    for (const Accumulation& each : accumulations_)
      for (size_t i = 1; i < each.parts.size(); ++i) {
        const Value& old = *body_.inputs()[static_cast<size_t>(region_.input(each.carried))];
        fresh_.push_back(body.add_input(old.type(), old.name()));
      }
  }

  static Value* accumulate(ir::Graph& body, const Accumulation& each, const std::vector<Value*>& parts,
                           Value* old) {
    const ir::Settings& where = parts[0]->producer()->settings;
    auto copy = [&](const ir::Op& op, std::span<Value* const> operands) {
      ir::Op* made = body.copy(op, operands);
      made->settings.block = where.block;
      made->settings.ipu = where.ipu;
      made->settings.stage = where.stage;
      return made->result();
    };
    auto through = [&](const std::vector<Step>& steps, Value* value) {
      for (const Step& step : steps) {
        std::vector<Value*> operands;
        for (int i = 0; i < step.op->operand_count(); ++i)
          operands.push_back(i == step.operand ? value : step.op->operand(i));
        value = copy(*step.op, operands);
      }
      return value;
    };
    Value* part = parts.size() == 1 ? parts[0] : copy(*each.sums_of_parts.front(), parts);
    part = through(each.of_gradient, part);
    return through(each.behind, copy(*each.sum, std::vector{through(each.of_old, old), part}));
  }

  // What did it before.
  static void erase(ir::Graph& body, const Accumulation& each) {
    auto erase_all = [&](const std::vector<Step>& steps) {
      for (auto step = steps.rbegin(); step != steps.rend(); ++step) body.erase(step->op);
    };
    erase_all(each.behind);
    body.erase(each.sum);
    erase_all(each.of_old);
    erase_all(each.of_gradient);
    for (ir::Op* sum : each.sums_of_parts) body.erase(sum);
  }

  void replace_pipeline(ir::Graph& body) {
    ir::Builder builder(pipeline_.graph(), &pipeline_);
    builder.location = pipeline_.location;
    std::vector<Value*> operands;
    for (int i = 0; i < region_.carried(); ++i) operands.push_back(pipeline_.operand(i));
    for (const Accumulation& each : accumulations_)
      for (const auto& [stage, parts] : each.parts) {
        if (stage == each.parts.rbegin()->first) continue;
        const ir::Settings& where = parts[0]->producer()->settings;
        builder.settings.block = where.block;
        builder.settings.ipu = where.ipu;
        builder.settings.context = ir::Context::kAccumulateOuter;
        operands.push_back(builder.splat(pipeline_.operand(each.carried)->type(), 0));
      }
    for (int i = region_.carried(); i < pipeline_.operand_count(); ++i)
      operands.push_back(pipeline_.operand(i));
    std::vector<ir::Type> types;
    for (const Value* output : body.outputs()) types.push_back(output->type());
    Attributes attributes = pipeline_.attributes;
    attributes.set("carried", static_cast<int64_t>(types.size()));
    attributes.set("stages", std::vector<Symbol>{Symbol{body.name()}});
    builder.settings = pipeline_.settings;
    ir::Op& made = *builder.create(pipeline_.kind(), operands, std::move(attributes), types);
    std::vector<Value*> results;
    for (int i = 0; i < region_.carried(); ++i) results.push_back(made.result(i));
    int extra = region_.carried();
    for (const Accumulation& each : accumulations_) {
      Value*& result = results[static_cast<size_t>(each.carried)];
      std::vector<Value*> all{result};
      for (size_t i = 1; i < each.parts.size(); ++i) all.push_back(made.result(extra++));
      builder.settings = each.parts.rbegin()->second[0]->producer()->settings;
      builder.settings.stage.reset();
      result = ops::build_op(builder, "add_n", all)->result();
    }
    std::vector<std::string> names;
    for (int i = 0; i < region_.carried(); ++i) {
      names.push_back(pipeline_.result(i)->name());
      pipeline_.result(i)->replace_all_uses_with(results[static_cast<size_t>(i)]);
    }
    ir::Graph& outer = *pipeline_.graph();
    outer.erase(&pipeline_);
    for (size_t i = 0; i < names.size(); ++i) outer.rename(results[i], names[i]);
    body_.module()->erase_graph(&body_);
  }

  ir::Op& pipeline_;
  const ir::Region region_;
  ir::Graph& body_;
  const std::unordered_set<const Value*> replicable_;
  std::vector<Accumulation> accumulations_;
  std::vector<Value*> fresh_;  // what the further accumulators hold, in the order of accumulations and stages
};

class SplitAccumulators : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    std::vector<ir::Op*> pipelines;
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (op->is(ir::kind::kPipeline)) pipelines.push_back(op.get());
    if (pipelines.empty()) return false;
    const CallSites sites = find_call_sites(module);
    int64_t added = 0;
    for (ir::Op* pipeline : pipelines) {
      const std::vector<ir::Graph*> stages = ir::called_graphs(*pipeline);
      if (stages.size() != 1 || sites.at(stages[0]).size() != 1) continue;
      added += Split(*pipeline, *stages[0]).run();
    }
    context.count("accumulators added", added);
    return added > 0;
  }
};

IPU_REGISTER_PASS(SplitAccumulators, "split-accumulators",
                  "Accumulates each stage's part of a gradient where it is made.", {"accumulators added"});

}  // namespace
}  // namespace ipu::passes
