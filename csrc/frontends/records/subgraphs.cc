#include "frontends/records/subgraphs.h"

#include <fmt/core.h>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {

std::set<std::string> names_read_outside(const GraphRecord& graph) {
  std::set<std::string> read, given;
  const auto take = [&](const std::string& name) {
    if (!name.empty() && !given.contains(name)) read.insert(name);
  };
  for (const GraphRecord::Input& input : graph.inputs) given.insert(input.name);
  for (const GraphRecord::Initialiser& initialiser : graph.initialisers) given.insert(initialiser.name);
  for (const NodeRecord& node : graph.nodes) {
    for (const std::string& name : node.operands) take(name);
    for (const auto& [name, inside] : node.subgraphs)
      for (const std::string& more : names_read_outside(inside)) take(more);
    given.insert(node.results.begin(), node.results.end());
  }
  for (const std::string& name : graph.outputs) take(name);
  return read;
}

void open_body(const GraphRecord& record, const std::vector<ir::Type>& inputs, const std::string& source,
               ValueTable& outside, ir::Builder& around, ValueTable& values, ops::ImportedBody& body) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Known known;
    known.value = body.graph->add_input(inputs[i], record.inputs[i].name);
    values.add(record.inputs[i].name, known);
  }
  for (const GraphRecord::Initialiser& initialiser : record.initialisers) {
    Known known;
    known.constant = initialiser.value;
    known.is_initialiser = true;
    values.add(initialiser.name, known);
  }
  for (const std::string& name : names_read_outside(record)) {
    Known* found = outside.find(name);
    if (found == nullptr)
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("unknown operand: graph '{}' in {} reads '{}', which neither it nor a graph around "
                      "it has given before.",
                      quotation(record.name), quotation(source), quotation(name)));
    Known known = *found;
    known.value = nullptr;
    if (found->constant == nullptr || found->is_variable) {
      ir::Value* value = outside.value(around, name, *found);
      known.value = body.graph->add_input(value->type(), name);
      body.captured.push_back(value);
      body.names.push_back(name);
    }
    values.add(name, known);
  }
}

void close_body(const GraphRecord& record, ValueTable& values, ir::Builder& builder,
                ops::ImportedBody& body) {
  for (const std::string& name : record.outputs) {
    Known* known = values.find(name);
    if (known == nullptr)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("unknown output: nothing in graph '{}' is called '{}'.", quotation(record.name),
                              quotation(name)));
    if (known->is_missing)
      throw Error(ErrorCode::kUnsupportedOps,
                  fmt::format("output '{}' of graph '{}' follows from an operator that cannot be imported",
                              quotation(name), quotation(record.name)));
    builder.graph()->append_output(values.value(builder, name, *known));
    body.constants.push_back(known->constant);
  }
  for (size_t i = 0; i < body.names.size(); ++i) {
    ir::Value* value = values.find(body.names[i])->value;
    if (value == builder.graph()->inputs()[record.inputs.size() + i]) continue;
    builder.graph()->append_output(value);
    body.written.push_back(static_cast<int>(i));
  }
}

}  // namespace ipu::frontends::records
