// Reverse mode over one graph: which values are active (forward sweep), then the rules of the ops in reverse
// order. Call sites recurse into their callee once per set of wanted gradients. How forward values reach the
// gradient graph is decided last (stitch.cc): until then each one is an input of the gradient graph.
#include "autodiff/differentiate.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/activity.h"
#include "autodiff/in_graph.h"
#include "autodiff/regions.h"
#include "autodiff/stitch.h"
#include "ir/builder.h"
#include "ir/regions.h"
#include "ir/subroutine.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_gradients.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::autodiff {
namespace {

using ir::Value;

using ops::not_differentiable;

// The gradient of an op needs what its operands held when it ran. Views in place are fine.
void refuse_writing(const ir::Op& op) {
  const ir::Effects effects = ops::effects(op);
  if (effects.writes.empty()) return;
  throw Error(
      ErrorCode::kNotDifferentiable,
      fmt::format("not differentiable: '{}' at {} writes to %{} of @{}, and gradients need what it held "
                  "before. Differentiate a graph that writes to no value, and update afterwards.",
                  op.kind(), ir::to_string(op.location), op.operand(effects.writes[0].operand)->name(),
                  op.graph()->name()))
      .at(ir::user_line(op.location));
}

// Call sites get their new results when all is done, in one sweep.
GradInfo differentiate_one(ir::Graph& graph, DifferentiateOptions& options, GrownGraphs& grown);

constexpr const char* kNoPass =
    "called in the body of a loop or branch of an inference model: its backward pass is captured in training alone";

class Differentiation {
 public:
  // `grown` gets the graphs that return more than before.
  Differentiation(ir::Graph& graph, DifferentiateOptions& options, GrownGraphs& grown)
      : graph_(graph),
        options_(options),
        grown_(grown),
        activity_(find_activity(graph, options.required, options.through_integers)),
        backward_(graph.module()->add_graph(graph.name() + "_gradient")),
        builder_(backward_) {
    info_.graph = backward_;
    if (const Attribute* kept = graph.attributes.find(ir::kSubroutine))
      backward_->attributes.set(ir::kSubroutine, *kept);
  }

  // Into the forward graph itself, where the builder stands.
  Differentiation(const ir::Builder& builder, DifferentiateOptions& options, GrownGraphs& grown,
                  const CustomPass& pass)
      : graph_(*builder.graph()),
        options_(options),
        grown_(grown),
        activity_(find_activity(graph_, options.required, options.through_integers)),
        backward_(&graph_),
        builder_(builder),
        in_graph_(true),
        pass_(pass) {}

  std::vector<Value*> run_in_graph(const std::vector<std::pair<Value*, Value*>>& provided) {
    std::vector<ir::Op*> forward;
    for (const auto& op : graph_.ops()) forward.push_back(op.get());
    for (const auto& [value, gradient] : provided) contributions_[value].push_back(gradient);
    for (auto at = forward.rbegin(); at != forward.rend(); ++at) visit(**at);
    std::vector<Value*> gradients;
    for (Value* value : options_.required) gradients.push_back(accumulated(value));
    return gradients;
  }

  GradInfo run() {
    for (Value* output : options_.provided) {
      Value* gradient = backward_->add_input(output->type(), output->name() + "_gradient");
      info_.expected_inputs.push_back({ConnectionKind::kGradient, output});
      if (activity_.is_active(output)) contributions_[output].push_back(gradient);
    }
    for (auto at = graph_.ops().rbegin(); at != graph_.ops().rend(); ++at) {
      poll_interruption();
      visit(**at);
    }
    for (Value* input : options_.required) {
      info_.expected_outputs.push_back({ConnectionKind::kGradient, input});
      Value* gradient = gradient_of_input(input);
      info_.gradients.emplace_back(input, gradient);
      backward_->append_output(gradient);
    }
    if (options_.stitch == Stitch::kAppendOutputs) {
      if (append_missing_outputs(graph_, info_)) grown_.insert(&graph_);
    } else {
      recompute_forward_values(graph_, info_);
    }
    return std::move(info_);
  }

 private:
  // Gradient ops stand where their forward op stands: same line, module, block and IPU.
  void stand_at(const ir::Op& op) {
    if (in_graph_) return;  // they are ops of the forward pass, captured at the line that asks for them
    builder_.settings = op.settings;
    builder_.settings.context = ir::Context::kBackward;
    builder_.settings.stage.reset();
    builder_.settings.no_grad = false;
    builder_.settings.recompute = ir::Recompute::kDefault;
    builder_.location = op.location;
    builder_.origin = op.origin;
  }

  // The sum of what readers of `value` contributed; nullptr when nobody did.
  Value* accumulated(Value* value) {
    auto at = contributions_.find(value);
    if (at == contributions_.end()) return nullptr;
    std::vector<Value*>& parts = at->second;
    if (parts.size() > 1) {
      // Contributions arrive from the last reader to the first; summing in order of the forward pass reads
      // better.
      std::reverse(parts.begin(), parts.end());
      parts = {ops::build_op(builder_, "add_n", parts)->result()};
    }
    return parts.front();
  }

  Value* gradient_of_input(Value* input) {
    const ir::Op* first = activity_.first_reader(input);
    if (first != nullptr) stand_at(*first);
    if (Value* gradient = accumulated(input)) return gradient;
    if (const ir::Op* cut = activity_.integer_cut(input, options_.provided))
      not_differentiable(*cut, fmt::format("which turns '{}' into integers", input->name()));
    return builder_.splat(input->type(), 0.0);
  }

  // The stand-in of a forward value in the gradient graph.
  Value* fetch(Value* value) {
    if (in_graph_) return value;
    auto [at, is_new] = stand_ins_.try_emplace(value, nullptr);
    if (!is_new) return at->second;
    const ir::Op* producer = value->producer();
    if (producer != nullptr && producer->is(ir::kind::kConstant)) {
      at->second = builder_.constant(producer->attributes.constant("value"), value->name());
    } else {
      at->second = backward_->add_input(value->type(), value->name());
      at->second->ipu = value->ipu;
      info_.expected_inputs.push_back({ConnectionKind::kForward, value});
    }
    return at->second;
  }

  void visit(ir::Op& op) {
    refuse_writing(op);
    std::vector<Value*> upstream(op.result_count());
    bool is_reached = false;
    for (int i = 0; i < op.result_count(); ++i) is_reached |= contributions_.contains(op.result(i));
    if (!is_reached) return;
    stand_at(op);
    for (int i = 0; i < op.result_count(); ++i) {
      upstream[i] = accumulated(op.result(i));
      if (upstream[i] != nullptr) info_.gradients.emplace_back(op.result(i), upstream[i]);
    }
    std::vector<Value*> operands;  // as they are now: a loop may get more
    std::vector<bool> needs;
    for (int i = 0; i < op.operand_count(); ++i) {
      operands.push_back(op.operand(i));
      needs.push_back(op.operand(i) != nullptr && activity_.is_active(op.operand(i)));
    }
    if (std::find(needs.begin(), needs.end(), true) == needs.end()) return;  // it makes what is required
    const std::vector<Value*> gradients = gradients_of(op, upstream, needs);
    for (size_t i = 0; i < operands.size(); ++i)
      if (needs[i] && i < gradients.size() && gradients[i] != nullptr)
        contributions_[operands[i]].push_back(gradients[i]);
  }

  std::vector<Value*> gradients_of(ir::Op& op, const std::vector<Value*>& upstream,
                                   const std::vector<bool>& needs) {
    auto fetcher = [this](Value* value) { return fetch(value); };
    if (op.is(ir::kind::kCall)) return call_gradients(op, upstream, needs);
    if (op.is(kCustomGradient)) return custom_gradients(op, upstream);
    if (op.is(ir::kind::kIf)) return if_gradients(op, upstream, needs, builder_, fetcher);
    if (op.is(ir::kind::kLoop)) {
      if (ir::Region(op).condition_output() >= 0)
        not_differentiable(op, "a loop with a condition computed at run time");
      return loop_gradients(op, upstream, needs, builder_, fetcher,
                            in_graph_ || options_.stitch == Stitch::kAppendOutputs);
    }
    if (op.is(ir::kind::kIpuCopy)) return {copy_back(op, upstream[0])};
    return ops::gradients_of_op(op, upstream, needs, builder_, fetcher);
  }

  Value* copy_back(const ir::Op& op, Value* gradient) {
    const int64_t from = op.attributes.integer("from"), to = op.attributes.integer("to");
    ir::Op* copy =
        builder_.create(ir::kind::kIpuCopy, {gradient}, {{"from", to}, {"to", from}}, {gradient->type()});
    copy->settings.ipu = static_cast<int>(from);
    return copy->result();
  }

  // The backward pass that the user's function brings.
  std::vector<Value*> custom_gradients(const ir::Op& op, const std::vector<Value*>& upstream) {
    const int results = op.result_count();
    const int arguments = static_cast<int>(op.attributes.integer("arguments"));
    std::vector<Value*> gradients(op.operand_count());
    if (pass_) {
      const std::vector<Value*> given = pass_(op, upstream);
      std::copy(given.begin(), given.end(), gradients.begin() + results);
      return gradients;
    }
    if (!op.attributes.has("gradient"))
      not_differentiable(
          op, fmt::format("which stands for autograd.Function {}, {}", op.attributes.text("function"),
                          op.attributes.text("refusal", kNoPass)));
    std::vector<Value*> inputs;
    for (int i = 0; i < results; ++i)
      inputs.push_back(upstream[i] != nullptr ? upstream[i] : builder_.splat(op.result(i)->type(), 0.0));
    for (int i = results + arguments; i < op.operand_count(); ++i) inputs.push_back(fetch(op.operand(i)));
    ir::Graph* graph = graph_.module()->find_graph(op.attributes.text("gradient"));
    IPU_CHECK(graph != nullptr, "a custom gradient without its graph");
    const std::vector<Value*> made = builder_.call(graph, inputs);
    const std::vector<int64_t>& of = op.attributes.integers("of");
    for (size_t i = 0; i < of.size(); ++i) gradients[results + of[i]] = made[i];
    return gradients;
  }

  std::vector<Value*> call_gradients(ir::Op& op, const std::vector<Value*>& upstream,
                                     const std::vector<bool>& needs) {
    ir::Graph& callee = ir::Region(op).body();
    const GradInfo info = callee_info(callee, upstream, needs);
    std::vector<Value*> arguments;
    for (const Connection& input : info.expected_inputs) {
      if (input.kind == ConnectionKind::kForward) {
        arguments.push_back(fetch(at_site(op, callee, input.forward)));
      } else {
        arguments.push_back(upstream_of(callee, input.forward, upstream));
      }
    }
    const std::vector<Value*> results = builder_.call(info.graph, arguments);
    std::vector<Value*> gradients(op.operand_count());
    for (size_t i = 0; i < info.expected_outputs.size(); ++i)
      gradients[info.expected_outputs[i].forward->index()] = results[i];
    return gradients;
  }

  static int output_index(const ir::Graph& graph, const Value* value) {
    const auto& outputs = graph.outputs();
    auto at = std::find(outputs.begin(), outputs.end(), value);
    IPU_CHECK(at != outputs.end(),
              fmt::format("value '{}' is no output of @{}", value->name(), graph.name()));
    return static_cast<int>(at - outputs.begin());
  }

  // The value of the caller that stands for `inner` of the callee: an operand or a result of the call site.
  static Value* at_site(ir::Op& site, const ir::Graph& callee, const Value* inner) {
    if (inner->producer() == nullptr) return site.operand(ir::Region(site).operand(inner->index()));
    return ir::result_for_output(site, callee, output_index(callee, inner));
  }

  // The gradient of the callee's output `value`, which the callee may return several times.
  Value* upstream_of(const ir::Graph& callee, const Value* value, const std::vector<Value*>& upstream) {
    std::vector<Value*> parts;
    for (size_t i = 0; i < upstream.size(); ++i)
      if (upstream[i] != nullptr && callee.outputs()[i] == value) parts.push_back(upstream[i]);
    if (parts.empty()) return builder_.splat(value->type(), 0.0);
    return parts.size() == 1 ? parts[0] : ops::build_op(builder_, "add_n", parts)->result();
  }

  // A gradient graph of `callee` that takes the gradients reaching this site and gives those needed: one from
  // the caller's cache when it covers them, else a new one.
  GradInfo callee_info(ir::Graph& callee, const std::vector<Value*>& upstream,
                       const std::vector<bool>& needs) {
    DifferentiateOptions inner;
    inner.stitch = options_.stitch;
    inner.through_integers = options_.through_integers;
    for (size_t i = 0; i < upstream.size(); ++i) {
      Value* output = callee.outputs()[i];
      if (upstream[i] == nullptr) continue;
      if (std::find(inner.provided.begin(), inner.provided.end(), output) == inner.provided.end())
        inner.provided.push_back(output);
    }
    for (size_t i = 0; i < needs.size(); ++i)
      if (needs[i]) inner.required.push_back(callee.inputs()[i]);
    auto covers = [&](const GradInfo& info) {
      auto lists = [](const std::vector<Connection>& list, const Value* value) {
        return std::any_of(list.begin(), list.end(), [&](const Connection& c) {
          return c.kind == ConnectionKind::kGradient && c.forward == value;
        });
      };
      return std::all_of(inner.provided.begin(), inner.provided.end(),
                         [&](Value* value) { return lists(info.expected_inputs, value); }) &&
             std::all_of(inner.required.begin(), inner.required.end(),
                         [&](Value* value) { return lists(info.expected_outputs, value); });
    };
    auto cached = options_.callee_infos.find(&callee);
    if (cached != options_.callee_infos.end() && covers(cached->second)) return cached->second;
    inner.callee_infos = options_.callee_infos;
    GradInfo made = differentiate_one(callee, inner, grown_);
    options_.callee_infos = std::move(inner.callee_infos);
    options_.callee_infos[&callee] = made;
    return made;
  }

  ir::Graph& graph_;
  DifferentiateOptions& options_;
  GrownGraphs& grown_;
  Activity activity_;
  ir::Graph* backward_;
  ir::Builder builder_;
  bool in_graph_ = false;
  CustomPass pass_;
  GradInfo info_;
  std::unordered_map<const Value*, std::vector<Value*>> contributions_;
  std::unordered_map<const Value*, Value*> stand_ins_;
};

void check_types(const std::vector<Value*>& values, const ir::Graph& graph, const char* role,
                 bool through_integers) {
  for (const Value* value : values)
    if (!carries_gradient(value->type().dtype, through_integers)) {
      const std::string what = fmt::format(
          "not differentiable: {} '{}' of @{} is of type {}; "
          "only floating point values have gradients.",
          role, value->name(), graph.name(), ir::to_string(value->type()));
      Error error(ErrorCode::kNotDifferentiable, what);
      const ir::Op* producer = value->producer();
      if (producer != nullptr) error.at(ir::user_line(producer->location));
      throw error;
    }
}

GradInfo differentiate_one(ir::Graph& graph, DifferentiateOptions& options, GrownGraphs& grown) {
  auto floating = [](const std::vector<Value*>& values) {
    std::vector<Value*> chosen;
    std::unordered_set<const Value*> seen;
    for (Value* value : values)
      if (is_floating_point(value->type().dtype) && seen.insert(value).second) chosen.push_back(value);
    return chosen;
  };
  DifferentiateOptions filled = options;
  if (filled.provided.empty()) filled.provided = floating(graph.outputs());
  if (filled.required.empty()) filled.required = floating(graph.inputs());
  check_types(filled.provided, graph, "output", filled.through_integers);
  check_types(filled.required, graph, "input", filled.through_integers);
  GradInfo info = Differentiation(graph, filled, grown).run();
  options.callee_infos = std::move(filled.callee_infos);
  return info;
}

}  // namespace

std::vector<Value*> gradients_in_graph(ir::Builder& builder,
                                       const std::vector<std::pair<Value*, Value*>>& provided,
                                       const std::vector<Value*>& required, const CustomPass& pass,
                                       bool through_integers) {
  DifferentiateOptions options;
  options.required = required;
  options.through_integers = through_integers;
  GrownGraphs grown;
  const std::vector<Value*> gradients = Differentiation(builder, options, grown, pass).run_in_graph(provided);
  if (!grown.empty()) complete_call_sites(*builder.module(), grown);
  return gradients;
}

std::vector<ir::Op*> custom_gradients_behind(const ir::Graph& graph, const Value* value) {
  std::unordered_set<const Value*> reached{value};
  std::vector<ir::Op*> found;
  for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
    ir::Op& op = **at;
    bool is_reached = false;
    for (int i = 0; i < op.result_count(); ++i) is_reached |= reached.contains(op.result(i));
    if (!is_reached || stops_gradients(op)) continue;
    if (op.is(kCustomGradient) && !op.attributes.has("gradient")) found.push_back(&op);
    for (int i = 0; i < op.operand_count(); ++i)
      if (takes_gradient(op, i)) reached.insert(op.operand(i));
  }
  return found;
}

void drop_custom_gradients(ir::Graph& graph) {
  ir::Op* next = nullptr;
  for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().front().get(); op != nullptr; op = next) {
    next = graph.next(op);
    if (!op->is(kCustomGradient)) continue;
    for (int i = 0; i < op->result_count(); ++i) op->result(i)->replace_all_uses_with(op->operand(i));
    graph.erase(op);
  }
}

bool takes_gradient(const ir::Op& op, int i) {
  if (!op.is(kCustomGradient)) return true;
  return i >= op.result_count() && i < op.result_count() + op.attributes.integer("arguments");
}

GradInfo differentiate(ir::Graph& graph, DifferentiateOptions& options) {
  GrownGraphs grown;
  GradInfo info = differentiate_one(graph, options, grown);
  if (!grown.empty()) complete_call_sites(*graph.module(), grown);
  return info;
}

}  // namespace ipu::autodiff
