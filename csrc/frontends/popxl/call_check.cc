#include "frontends/popxl/call_check.h"

#include <fmt/core.h>

#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void fail(const Op& op, const std::string& what) {
  Error error(ErrorCode::kInvalidIr, fmt::format("graph does not fit its caller: {} {} of {} {}",
                                                 op.kind().type, op.id(), described(op.graph()), what));
  throw error.at(ir::user_line(op.settings.location));
}

void check_numbers(const Op& op, const Graph& callee, const std::map<int, int>& numbers, size_t count,
                   const char* what, int lowest) {
  for (const auto& [own, number] : numbers)
    if (own < 0 || own >= static_cast<int>(count) || number < lowest)
      fail(op, fmt::format("connects {} {} of {}, which has {}, with its own {}", what, own,
                           described(callee), count, number));
}

}  // namespace

void check_call(const Op& op) {
  const bool is_branch = op.kind().type == "If" || op.kind().type == "IfGrad";
  const size_t graphs = is_branch ? 2 : 1;
  if (op.callees.size() != graphs) fail(op, fmt::format("runs {} graphs, not {}", op.callees.size(), graphs));
  if (op.kind().type == "Loop") {
    const Graph& body = *op.callees[0];
    if (body.inputs.size() < 2 || body.outputs.size() + 1 > body.inputs.size())
      fail(op, fmt::format("runs {} with {} inputs and {} outputs; a loop hands over two numbers and what "
                           "its outputs become",
                           described(body), body.inputs.size(), body.outputs.size()));
  }
  if (!is_branch) return;
  if (op.input(0) == nullptr) fail(op, "has no condition");
  if (op.callee_inputs.size() != graphs || op.callee_outputs.size() != graphs)
    fail(op, fmt::format("says for {} and {} of {} graphs where inputs and outputs go",
                         op.callee_inputs.size(), op.callee_outputs.size(), graphs));
  for (size_t b = 0; b < graphs; ++b) {
    const Graph& callee = *op.callees[b];
    check_numbers(op, callee, op.callee_inputs[b], callee.inputs.size(), "input", 1);
    check_numbers(op, callee, op.callee_outputs[b], callee.outputs.size(), "output", -1);
  }
}

}  // namespace ipu::popxl
