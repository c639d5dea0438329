#include "report/program_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/structure.h"

namespace ipu::report {
namespace {

struct Shown {
  std::string text;
  void operator()(const ConstantPtr&) {}
  void operator()(const Symbol&) {}
  void operator()(const std::vector<Symbol>&) {}
  void operator()(DType dtype) { text += to_string(dtype); }
  template <class T>
  void operator()(const T& value) {
    text += fmt::format("{}", value);
  }
};

// Ops with the same text do the same to values of the same types.
std::string key_of(const ir::Op& op) {
  Shown key{op.kind()};
  for (int i = 0; i < op.operand_count(); ++i)
    key.text += op.operand(i) == nullptr ? " -" : " " + ir::to_string(op.operand(i)->type());
  for (int i = 0; i < op.result_count(); ++i) key.text += " > " + ir::to_string(op.result(i)->type());
  for (const auto& [name, value] : op.attributes) {
    key.text += " " + name + "=";
    std::visit(key, value);
  }
  return std::move(key.text);
}

std::string vertex_of(const ir::Op& op, const target::WorkForm& form) {
  std::string vertex(target::word(form));
  if (op.result_count() > 0) vertex += fmt::format(" {}", to_string(op.result()->type().dtype));
  if (const auto* pass = std::get_if<target::PassWork>(&form))
    vertex += fmt::format(" {} {}", pass->operands, fmt::join(pass->functions, " "));
  return vertex;
}

}  // namespace

void ProgramCode::add(const ir::Op& op, const ops::OpWork& work) {
  target::CodeBytes once;
  const bool is_transfer = ir::is_structural(op) && (ir::is_transfer(op) || op.is(ir::kind::kIpuCopy) ||
                                                     op.is(ir::kind::kRingPush) || op.is(ir::kind::kRingPop));
  if (is_transfer) once = target::transfer_bytes();
  for (const target::Work& phase : work.phases) {
    const target::CodeBytes bytes = target::code_bytes(phase.form);
    if (vertices_.insert(vertex_of(op, phase.form)).second) bytes_.vertex_code += bytes.vertex_code;
    once += bytes;
  }
  if (!is_transfer && work.phases.empty()) return;
  once.vertex_code = 0;
  const auto [at, is_new] = seen_.try_emplace(key_of(op), static_cast<int>(seen_.size()));
  const uint64_t pair = static_cast<uint64_t>(last_ + 1) << 32 | static_cast<uint32_t>(at->second);
  const bool is_known_pair = !pairs_.insert(pair).second;
  last_ = at->second;
  if (!is_new && is_outlined_) {
    // Inside of code that runs again; or a call of it.
    once =
        is_known_pair ? target::CodeBytes{} : target::CodeBytes{.control = target::transfer_bytes().control};
  } else if (!is_new) {
    once.exchange *= repeat_exchange_;
  }
  bytes_ += once;
}

}  // namespace ipu::report
