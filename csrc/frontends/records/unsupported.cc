#include "frontends/records/unsupported.h"

#include <fmt/core.h>

#include "ops/definition/importers.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::records {

std::string node_name(const NodeRecord& node) {
  if (!node.name.empty()) return fmt::format("node '{}'", quotation(node.name));
  for (const std::string& result : node.results)
    if (!result.empty()) return fmt::format("the node that gives '{}'", quotation(result));
  return "a node without name and results";
}

std::string described(const NodeRecord& node, int version) {
  return fmt::format("{}::{} (version {}) of {}", quotation(ops::canonical_domain(node.domain)),
                     quotation(node.type), version, node_name(node));
}

void UnsupportedNodes::add(const NodeRecord& node, int version, const std::string& why) {
  nodes_ += node.name + "\n";
  const std::string line = ir::user_line(node.location);
  entries_[{std::string(ops::canonical_domain(node.domain)), node.type, version, why}].push_back(
      node_name(node) + (line.empty() ? "" : " at " + line));
}

void UnsupportedNodes::raise(const std::string& source, bool is_file) const {
  constexpr size_t kNamed = 8;
  size_t places = 0;
  for (const auto& [key, nodes] : entries_) places += nodes.size();
  std::string text =
      fmt::format("unsupported operations: {} uses {} {} that cannot be imported, in {} {}",
                  quotation(source), entries_.size(), entries_.size() == 1 ? "operator" : "operators", places,
                  places == 1 ? "place" : "places");
  if (skipped_ > 0)
    text += fmt::format(" ({} {} their results, so the list may be incomplete)", skipped_,
                        skipped_ == 1 ? "node reads" : "nodes read");
  text += ".";
  std::string unknown;
  for (const auto& [key, nodes] : entries_) {
    const auto& [domain, type, version, why] = key;
    if (why == kNoImporter)
      unknown +=
          fmt::format("{}{}.{}:{}", unknown.empty() ? "" : ", ", quotation(domain), quotation(type), version);
    text += fmt::format("\n  {}::{}, version {}  x{}: {}", quotation(domain), quotation(type), version,
                        nodes.size(), why);
    for (size_t i = 0; i < nodes.size() && i < kNamed; ++i) text += "\n            " + nodes[i];
    if (nodes.size() > kNamed) text += "\n            ...";
  }
  text += fmt::format("\n  try:      {}\n  read:     docs/ops.md lists what is supported",
                      is_file ? "export the model with other operators or another version of the domain, or "
                                "compute that part outside of it"
                              : "compute that part on the CPU, outside of the unit, or write it with other "
                                "operations");
  throw Error(ErrorCode::kUnsupportedOps, text)
      .because("unsupported_nodes", {{"unknown", unknown}, {"nodes", nodes_}});
}

}  // namespace ipu::frontends::records
