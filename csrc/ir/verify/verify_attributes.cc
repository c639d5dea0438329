// Attributes and counts of ops, as the rules ask for them; what is wrong is reported here.
#include <fmt/core.h>

#include "ir/verify/verifier_rules.h"

namespace ipu::ir {

bool Verifier::counts(const Op& op, int operands, int results) {
  if (op.operand_count() == operands && op.result_count() == results) return true;
  report(fmt::format("takes {} operands and gives {} results, not {} and {}", operands, results,
                     op.operand_count(), op.result_count()));
  return false;
}

void Verifier::same(const Op& op, const Type& from, const Type& to) {
  if (from != to) report(fmt::format("turns {} into {}", to_string(from), to_string(to)));
}

bool Verifier::flag(const Op& op, std::string_view name) {
  const Attribute* value = op.attributes.find(name);
  const bool* set = value ? std::get_if<bool>(value) : nullptr;
  if (value != nullptr && set == nullptr) report(fmt::format("attribute '{}' is true or false", name));
  return set != nullptr && *set;
}

bool Verifier::integer(const Op& op, std::string_view name, int64_t least) {
  const Attribute* value = op.attributes.find(name);
  const int64_t* n = value ? std::get_if<int64_t>(value) : nullptr;
  if (n != nullptr && *n >= least) return true;
  report(fmt::format("attribute '{}' is an integer of at least {}", name, least));
  return false;
}

int64_t Verifier::carried_count(const Op& op) {
  if (!integer(op, "carried", 0)) return -1;
  int64_t carried = op.attributes.integer("carried");
  if (carried <= op.operand_count()) return carried;
  report(fmt::format("carries {} values and has {} operands", carried, op.operand_count()));
  return -1;
}

const std::string* Verifier::symbol(const Op& op, std::string_view name) {
  const Attribute* value = op.attributes.find(name);
  const auto* s = value ? std::get_if<Symbol>(value) : nullptr;
  if (s != nullptr) return &s->name;
  report(fmt::format("attribute '{}' is a symbol such as @x", name));
  return nullptr;
}

const Graph* Verifier::graph_of(const Op& op, std::string_view name) {
  const std::string* graph_name = symbol(op, name);
  if (graph_name == nullptr) return nullptr;
  const Graph* graph = module_.find_graph(*graph_name);
  if (graph == nullptr) report(fmt::format("graph {} does not exist", at(*graph_name)));
  return graph;
}

}  // namespace ipu::ir
