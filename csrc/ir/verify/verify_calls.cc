// Rules of ops with graphs: calls, loops, branches, pipelines, against the inputs and outputs of what they
// run.
#include <fmt/core.h>

#include "ir/structure.h"
#include "ir/verify/verifier_rules.h"

namespace ipu::ir {

void Verifier::call(const Op& op) {
  const Graph* callee = graph_of(op, "callee");
  if (callee == nullptr) return;
  arguments(op, 0, *callee, 0);
  results(op, *callee, 0);
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
  int64_t carried = carried_count(op);
  if (!integer(op, "trip", 0) || body == nullptr || carried < 0) return;
  loop_body(op, *body, carried, flag(op, "while") ? 1 : 0);
  modified(op);
}

void Verifier::loop_body(const Op& op, const Graph& body, int64_t carried, int64_t leading) {
  index_input(body);
  arguments(op, 0, body, 1);
  if (leading == 1 && (body.outputs().empty() || body.outputs()[0]->type() != Type{DType::kBool, {}}))
    return report(fmt::format("with 'while' the first output of {} is bool[]", at(body.name())));
  if (static_cast<int64_t>(body.outputs().size()) != carried + leading)
    return report(fmt::format("{} has {} outputs; {} are needed", at(body.name()), body.outputs().size(),
                              carried + leading));
  carried_types(op, body, carried, leading);
  carried_results(op, carried);
}

void Verifier::index_input(const Graph& body) {
  if (body.inputs().empty() || body.inputs()[0]->type() != Type{DType::kI32, {}})
    report(fmt::format("the first input of {} is the index, i32[]", at(body.name())));
}

void Verifier::carried_types(const Op& op, const Graph& body, int64_t carried, int64_t leading) {
  for (int64_t i = 0; i < carried; ++i) {
    const Type& in = op.operand(static_cast<int>(i))->type();
    const Type& out = body.outputs()[static_cast<size_t>(i + leading)]->type();
    if (in != out)
      report(fmt::format("carried value {} is {}, and {} returns {}", i, to_string(in), at(body.name()),
                         to_string(out)));
  }
}

void Verifier::carried_results(const Op& op, int64_t carried) {
  if (op.result_count() != carried)
    return report(fmt::format("has {} results and {} carried values", op.result_count(), carried));
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
  for (const Graph* graph : {then_graph, else_graph}) {
    if (graph == nullptr) continue;
    arguments(op, 1, *graph, 0);
    results(op, *graph, 0);
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
  std::vector<const Value*> flows;
  for (const Symbol& name : *names) {
    const Graph* stage = module_.find_graph(name.name);
    if (stage == nullptr) return report(fmt::format("stage {} does not exist", at(name.name)));
    index_input(*stage);
    arguments(op, 0, *stage, 1, static_cast<int>(flows.size()));
    if (static_cast<int64_t>(stage->outputs().size()) < carried)
      return report(fmt::format("stage {} returns fewer than the {} carried values", at(name.name), carried));
    size_t first_flow = static_cast<size_t>(op.operand_count()) + 1;
    for (size_t i = 0; i < flows.size() && first_flow + i < stage->inputs().size(); ++i)
      if (stage->inputs()[first_flow + i]->type() != flows[i]->type())
        report(fmt::format("flow {} is {}, and stage {} takes {}", i, to_string(flows[i]->type()),
                           at(name.name), to_string(stage->inputs()[first_flow + i]->type())));
    carried_types(op, *stage, carried, 0);
    flows.insert(flows.end(), stage->outputs().begin() + carried, stage->outputs().end());
  }
  carried_results(op, carried);
}

void Verifier::arguments(const Op& op, int first, const Graph& callee, int skip, int extra) {
  int given = op.operand_count() - first, taken = static_cast<int>(callee.inputs().size()) - skip - extra;
  if (given != taken)
    return report(fmt::format("passes {} values, and {} takes {}", given, at(callee.name()), taken));
  for (int i = 0; i < given; ++i) {
    const Type& from = op.operand(first + i)->type();
    const Type& to = callee.inputs()[static_cast<size_t>(skip + i)]->type();
    if (from != to)
      report(fmt::format("operand {} is {}, and input {} of {} is {}", first + i, to_string(from), skip + i,
                         at(callee.name()), to_string(to)));
  }
}

void Verifier::results(const Op& op, const Graph& callee, size_t skip) {
  size_t returned = callee.outputs().size() - skip;
  if (static_cast<size_t>(op.result_count()) != returned)
    return report(
        fmt::format("has {} results, and {} returns {}", op.result_count(), at(callee.name()), returned));
  for (int i = 0; i < op.result_count(); ++i) {
    const Type& to = op.result(i)->type();
    const Type& from = callee.outputs()[skip + static_cast<size_t>(i)]->type();
    if (from != to)
      report(fmt::format("result {} is {}, and output {} of {} is {}", i, to_string(to), i, at(callee.name()),
                         to_string(from)));
  }
}

}  // namespace ipu::ir
