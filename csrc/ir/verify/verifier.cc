// The way through a module, and graphs that must not call each other in a circle.
#include "ir/verify/verifier.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "ir/effects.h"
#include "ir/structure.h"
#include "ir/text/text.h"
#include "ir/verify/verifier_rules.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::ir {

std::vector<Violation> Verifier::run() {
  tables();
  entry_points();
  for (const auto& graph : module_.graphs()) check(*graph);
  recursion();
  return std::move(found_);
}

void Verifier::report(std::string what) {
  if (op_ != nullptr && op_ != described_) {
    PrintOptions brief;
    brief.origins = false;
    brief.max_constant_elements = 16;
    description_ = print(*op_, brief);
    if (description_.size() > 400) description_ = description_.substr(0, 400) + "...";
    described_ = op_;
  }
  found_.push_back({graph_ ? graph_->name() : "", op_ ? description_ : "", std::move(what)});
}

void Verifier::check(const Graph& graph) {
  graph_ = &graph;
  if (form_ != Form::kAuthored)
    for (const Value* input : graph.inputs())
      if (input->by_reference)
        report(fmt::format("input %{} is by reference; the functional form has none", input->name()));
  listed_.clear();
  for (const auto& op : graph.ops()) {
    poll_interruption();
    op_ = op.get();
    check_op(*op);
    const auto id = static_cast<size_t>(op->id());
    if (id >= listed_.size()) listed_.resize(std::max(id + 1, 2 * listed_.size()));
    listed_[id] = true;
  }
  op_ = nullptr;
  graph_ = nullptr;
}

void Verifier::check_op(const Op& op) {
  for (int i = 0; i < op.operand_count(); ++i) {
    const Value* value = op.operand(i);
    if (value != nullptr && value->producer() != nullptr && !is_listed(*value->producer()))
      report(fmt::format("operand {}, %{}, is defined later", i, value->name()));
  }
  for (const Op* earlier : op.after) {
    if (earlier->graph() != op.graph())
      report("is ordered after an op of another graph");
    else if (!is_listed(*earlier))
      report("is ordered after an op that is listed later");
  }
  if (form_ != Form::kAuthored) {
    if (!op.after.empty()) report("has order edges; the functional form has none");
    if (op.attributes.has("modified")) report("modifies its operands; the functional form has no writes");
    if (op.attributes.has(kInPlace)) report("works in place; in the functional form each value is its own");
    if (is_structural(op) && op.structure()->is_authored_only)
      report("writes to a value; the functional form has no writes");
  }
  if (!is_structural(op)) return;
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) == nullptr) return report(fmt::format("operand {} is absent", i));
  (this->*op.structure()->check)(op);
}

void Verifier::recursion() {
  struct Frame {
    const Graph* graph;
    std::vector<const Graph*> callees;
    size_t next = 0;
  };
  std::unordered_map<const Graph*, bool> on_stack;
  for (const auto& start : module_.graphs()) {
    if (on_stack.contains(start.get())) continue;
    std::vector<Frame> stack;
    auto enter = [&](const Graph* graph) {
      on_stack[graph] = true;
      stack.push_back({graph, callees(*graph)});
    };
    enter(start.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.callees.size()) {
        on_stack[top.graph] = false;
        stack.pop_back();
        continue;
      }
      const Graph* callee = top.callees[top.next++];
      if (entry_graphs_.contains(callee)) {
        graph_ = top.graph;
        report("calls the entry graph " + at(callee->name()));
      }
      auto known = on_stack.find(callee);
      if (known == on_stack.end()) {
        enter(callee);
      } else if (known->second) {
        graph_ = top.graph;
        report(fmt::format("calls {}, which leads back here: graphs do not recurse", at(callee->name())));
      }
      graph_ = nullptr;
    }
  }
}

std::vector<const Graph*> Verifier::callees(const Graph& graph) {
  std::vector<const Graph*> list;
  std::unordered_set<const Graph*> listed;
  for (const auto& op : graph.ops())
    for (const Graph* callee : called_graphs(*op))
      if (listed.insert(callee).second) list.push_back(callee);
  return list;
}

std::vector<Violation> find_violations(const Module& module, Form form) {
  return Verifier(module, form).run();
}

std::string describe(const std::vector<Violation>& violations) {
  std::string text = fmt::format("invalid IR: {}{}", violations.size(),
                                 violations.size() == 1 ? " violation." : " violations.");
  for (const Violation& v : violations) {
    text += "\n  ";
    if (!v.graph.empty()) text += fmt::format("@{}: ", v.graph);
    text += v.what + ".";
    if (!v.op.empty()) text += "\n    " + v.op;
  }
  return text;
}

void verify(const Module& module, Form form) {
  std::vector<Violation> violations = find_violations(module, form);
  if (!violations.empty()) throw Error(ErrorCode::kInvalidIr, describe(violations));
}

}  // namespace ipu::ir
