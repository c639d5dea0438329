#include "frontends/torch/capture/unsupported.h"

#include <algorithm>
#include <utility>

#include "support/error.h"

namespace ipu::frontends::torch_frontend {

void UnsupportedOps::add(const std::string& name, const std::string& detail, ir::Location location,
                         std::string stack) {
  auto found = std::find_if(ops_.begin(), ops_.end(),
                            [&](const Op& op) { return op.name == name && op.detail == detail; });
  if (found == ops_.end()) found = ops_.insert(found, {name, detail, 0, {}, std::move(stack)});
  ++found->count;
  found->lines.push_back(std::move(location));
}

void UnsupportedOps::raise(std::string_view stopped, std::string reason) const {
  int64_t total = 0;
  for (const Op& u : ops_) total += u.count;
  std::string text = "unsupported operations: forward() uses " + std::to_string(ops_.size()) +
                     (ops_.size() == 1 ? " operator" : " operators") + " without an IPU implementation, in " +
                     std::to_string(total) + (total == 1 ? " place" : " places");
  if (!stopped.empty())
    text += " (capture stopped where " + std::string(stopped) + ": the list may be incomplete)";
  text += ".";
  std::string first;
  for (const Op& u : ops_) {
    text += "\n  " + u.name + "  x" + std::to_string(u.count);
    if (!u.detail.empty()) text += ": " + u.detail;
    std::vector<std::string> seen;
    for (const ir::Location& location : u.lines) {
      std::string line = ir::to_string(location);
      if (std::find(seen.begin(), seen.end(), line) != seen.end()) continue;
      if (seen.size() == 8) {
        text += "\n            ...";
        break;
      }
      text += "\n            " + line;
      if (first.empty()) first = ir::user_line(location);
      seen.push_back(line);
    }
    text += u.stack;
  }
  text +=
      "\n  try:      write them with supported operators, or do that part on the CPU before or after the call"
      "\n  read:     docs/ops.md lists what is supported";
  throw Error(ErrorCode::kUnsupportedOps, text).because(std::move(reason)).at(first);
}

}  // namespace ipu::frontends::torch_frontend
