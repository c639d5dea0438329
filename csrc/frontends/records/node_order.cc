#include "frontends/records/node_order.h"

#include <fmt/core.h>

#include <unordered_map>
#include <unordered_set>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {
namespace {

using Producers = std::unordered_map<std::string, size_t>;

// Nodes on the way from `from` back to `to`, both included; empty: no way.
std::vector<size_t> way_back(const GraphRecord& graph, const Producers& producers, size_t from, size_t to) {
  std::unordered_map<size_t, size_t> reader{{from, from}};
  std::vector<size_t> open{from};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (at == to) {
      std::vector<size_t> way{to};
      while (way.back() != from) way.push_back(reader[way.back()]);
      return way;
    }
    for (const std::string& name : graph.nodes[at].operands) {
      const auto producer = producers.find(name);
      if (producer != producers.end() && reader.emplace(producer->second, at).second)
        open.push_back(producer->second);
    }
  }
  return {};
}

[[noreturn]] void raise_unordered(const GraphRecord& graph, const Producers& producers, size_t node,
                                  const std::string& name) {
  const NodeRecord& record = graph.nodes[node];
  const auto later = producers.find(name);
  if (later == producers.end())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("unknown operand: {} reads '{}', which is no input, no initialiser and no result of a "
                    "node.",
                    node_name(record), quotation(name)));
  const std::vector<size_t> cycle = way_back(graph, producers, later->second, node);
  if (cycle.empty())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("nodes out of order: {} reads '{}', which {} gives later. Sort the nodes so that each "
                    "comes after those whose results it reads.",
                    node_name(record), quotation(name), node_name(graph.nodes[later->second])));
  std::string text;
  for (const size_t step : cycle) text += node_name(graph.nodes[step]) + " → ";
  throw Error(
      ErrorCode::kTypeMismatch,
      fmt::format("cycle: {}{}: each reads what the one before it gives. A graph of nodes has no cycles; "
                  "repeat with a loop.",
                  text, node_name(record)));
}

}  // namespace

void check_order(const GraphRecord& graph) {
  std::unordered_set<std::string> given;
  for (const GraphRecord::Input& input : graph.inputs) given.insert(input.name);
  for (const GraphRecord::Initialiser& initialiser : graph.initialisers) given.insert(initialiser.name);
  Producers producers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& name : graph.nodes[i].results) {
      if (name.empty()) continue;
      const auto [at, is_new] = producers.emplace(name, i);
      if (is_new && !given.contains(name)) continue;
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("duplicate name: {} gives '{}', and so does {}. Give each result a name of its own.",
                      node_name(graph.nodes[i]), quotation(name),
                      is_new ? "an input or initialiser" : node_name(graph.nodes[at->second])));
    }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& name : graph.nodes[i].operands)
      if (!name.empty() && !given.contains(name)) raise_unordered(graph, producers, i, name);
    given.insert(graph.nodes[i].results.begin(), graph.nodes[i].results.end());
  }
}

}  // namespace ipu::frontends::records
