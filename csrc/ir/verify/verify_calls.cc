// Rules of ops with graphs: calls, loops, branches, pipelines, against the inputs and outputs of what they
// run.
#include <fmt/core.h>

#include "ir/structure.h"
#include "ir/verify/verifier_rules.h"

namespace ipu::ir {

void Verifier::call(const Op& op) {
  const Graph* callee = graph_of(op, "callee");
  if (callee == nullptr) return;
  const Region region(op);
  arguments(region, *callee);
  results(region, *callee);
  modified(op);
  if (!op.is(kind::kMultiExchange)) return;
  for (const auto& inner : callee->ops())
    if (!is_transfer(*inner) && !inner->is(kind::kConstant))
      return report(
          fmt::format("merges '{}' of {}; "
                      "an exchange holds transfers to and from the host and streaming memory only",
                      inner->kind(), at(callee->name())));
}

void Verifier::code_load(const Op& op) {
  const Graph* graph = graph_of(op, "graph");
  if (!counts(op, 0, 0) || graph == nullptr) return;
  if (graph == graph_) report("loads the code of the graph it is in");
  const Attribute* value = op.attributes.find("destination");
  const auto* destination = value ? std::get_if<std::string>(value) : nullptr;
  if (value != nullptr && (destination == nullptr || *destination != "executable"))
    report("attribute 'destination' is \"executable\"");
  if (op.settings.tile_set == TileSet::kIo) report("loads code to I/O tiles, which run none");
}

void Verifier::modified(const Op& op) {
  const Attribute* marks = op.attributes.find("modified");
  if (marks == nullptr) return;
  const auto* indices = std::get_if<std::vector<int64_t>>(marks);
  if (indices == nullptr) return report("attribute 'modified' is a list of operand numbers");
  for (int64_t i : *indices)
    if (i < 0 || i >= op.operand_count()) report(fmt::format("modified operand {} does not exist", i));
}

void Verifier::loop(const Op& op) {
  const Graph* body = graph_of(op, "body");
  const int64_t carried = carried_count(op);
  if (!integer(op, "trip", 0) || body == nullptr || carried < 0) return;
  const size_t before = found_.size();
  flag(op, "while");
  if (found_.size() > before) return modified(op);
  if (op.attributes.has("expected") && integer(op, "expected", 0) &&
      (!op.attributes.boolean("while", false) ||
       op.attributes.integer("expected") > op.attributes.integer("trip")))
    report("attribute 'expected' is at most 'trip', of a loop with 'while'");
  loop_body(Region(op), *body);
  modified(op);
}

void Verifier::loop_body(const Region& region, const Graph& body) {
  index_input(body);
  arguments(region, body);
  if (region.condition_output() == 0 &&
      (body.outputs().empty() || body.outputs()[0]->type() != Type{DType::kBool, {}}))
    return report(fmt::format("with 'while' the first output of {} is bool[]", at(body.name())));
  const int needed = region.output(region.carried());
  if (static_cast<int>(body.outputs().size()) != needed)
    return report(
        fmt::format("{} has {} outputs; {} are needed", at(body.name()), body.outputs().size(), needed));
  carried_types(region, body);
  carried_results(region);
}

void Verifier::index_input(const Graph& body) {
  if (body.inputs().empty() || body.inputs()[0]->type() != Type{DType::kI32, {}})
    report(fmt::format("the first input of {} is the index, i32[]", at(body.name())));
}

void Verifier::carried_types(const Region& region, const Graph& body) {
  for (int i = 0; i < region.carried(); ++i) {
    const Type& in = region.op().operand(i)->type();
    const Type& out = body.outputs()[static_cast<size_t>(region.output(i))]->type();
    if (in != out)
      report(fmt::format("carried value {} is {}, and {} returns {}", i, to_string(in), at(body.name()),
                         to_string(out)));
  }
}

void Verifier::carried_results(const Region& region) {
  const Op& op = region.op();
  if (op.result_count() != region.carried())
    return report(fmt::format("has {} results and {} carried values", op.result_count(), region.carried()));
  for (int i = 0; i < op.result_count(); ++i)
    if (op.result(i)->type() != op.operand(i)->type())
      report(fmt::format("result {} is {}, the carried value {}", i, to_string(op.result(i)->type()),
                         to_string(op.operand(i)->type())));
}

void Verifier::branch(const Op& op) {
  const Graph* then_graph = graph_of(op, "then");
  const Graph* else_graph = graph_of(op, "else");
  if (op.operand_count() == 0 || op.operand(0)->type() != Type{DType::kBool, {}})
    return report("operand 0 is the condition, bool[]");
  const Region region(op);
  for (const Graph* graph : {then_graph, else_graph}) {
    if (graph == nullptr) continue;
    arguments(region, *graph);
    results(region, *graph);
  }
}

void Verifier::pipeline(const Op& op) {
  const Attribute* value = op.attributes.find("stages");
  const auto* names = value ? std::get_if<std::vector<Symbol>>(value) : nullptr;
  int64_t carried = carried_count(op);
  if (names == nullptr || names->empty()) return report("attribute 'stages' is a list of graphs");
  if (!integer(op, "micro_batches", 1) || carried < 0) return;
  const Attribute* kind = op.attributes.find("schedule");
  const auto* schedule = kind ? std::get_if<std::string>(kind) : nullptr;
  if (kind != nullptr && (schedule == nullptr || (*schedule != "grouped" && *schedule != "interleaved" &&
                                                  *schedule != "sequential")))
    report("attribute 'schedule' is \"grouped\", \"interleaved\" or \"sequential\"");
  const Region region(op);
  const auto first_flow = static_cast<size_t>(region.first_flow_input());
  std::vector<const Value*> flows;
  for (const Symbol& name : *names) {
    const Graph* stage = module_.find_graph(name.name);
    if (stage == nullptr) return report(fmt::format("stage {} does not exist", at(name.name)));
    index_input(*stage);
    arguments(region, *stage, static_cast<int>(flows.size()));
    if (static_cast<int64_t>(stage->outputs().size()) < carried)
      return report(fmt::format("stage {} returns fewer than the {} carried values", at(name.name), carried));
    for (size_t i = 0; i < flows.size() && first_flow + i < stage->inputs().size(); ++i)
      if (stage->inputs()[first_flow + i]->type() != flows[i]->type())
        report(fmt::format("flow {} is {}, and stage {} takes {}", i, to_string(flows[i]->type()),
                           at(name.name), to_string(stage->inputs()[first_flow + i]->type())));
    carried_types(region, *stage);
    flows.insert(flows.end(), stage->outputs().begin() + region.first_flow_output(), stage->outputs().end());
  }
  carried_results(region);
}

void Verifier::arguments(const Region& region, const Graph& body, int extra) {
  const Op& op = region.op();
  const int first = region.first_operand();
  const int given = op.operand_count() - first;
  const int taken = static_cast<int>(body.inputs().size()) - region.first_input() - extra;
  if (given != taken)
    return report(fmt::format("passes {} values, and {} takes {}", given, at(body.name()), taken));
  for (int i = first; i < op.operand_count(); ++i) {
    const int input = region.input(i);
    const Type& from = op.operand(i)->type();
    const Type& to = body.inputs()[static_cast<size_t>(input)]->type();
    if (from != to)
      report(fmt::format("operand {} is {}, and input {} of {} is {}", i, to_string(from), input,
                         at(body.name()), to_string(to)));
  }
}

void Verifier::results(const Region& region, const Graph& body) {
  const Op& op = region.op();
  const auto results = static_cast<size_t>(op.result_count());
  const size_t returned = body.outputs().size();
  // Outputs may have been appended after the call (complete_calls).
  const bool may_lack = form_ == Form::kAuthored && is_call(op);
  if (may_lack ? results > returned : results != returned)
    return report(fmt::format("has {} results, and {} returns {}", results, at(body.name()), returned));
  for (int i = 0; i < op.result_count(); ++i) {
    const Type& to = op.result(i)->type();
    const Type& from = body.outputs()[static_cast<size_t>(region.output(i))]->type();
    if (from != to)
      report(fmt::format("result {} is {}, and output {} of {} is {}", i, to_string(to), i, at(body.name()),
                         to_string(from)));
  }
}

}  // namespace ipu::ir
