#include "emulator/proof/prove_control.h"

#include <map>
#include <vector>

namespace ipu::emulator {
namespace {

using program::Instruction;
using program::IpuProgram;
using program::Opcode;
using program::Storage;

bool is_branch(Opcode opcode) {
  return opcode == Opcode::kBranchIfNot || opcode == Opcode::kBranchUnlessCounter || opcode == Opcode::kJump;
}

using Bits = std::vector<uint64_t>;

void intersect(Bits& into, const Bits& with) {
  for (size_t w = 0; w < into.size(); ++w) into[w] &= with[w];
}

}  // namespace

// Definitions are never undone, branches go forward, and the way back of a loop carries more definitions than
// the way in. So one walk in the order of the instructions sees every way to each of them.
std::optional<UndefinedExternal> find_undefined_external(const IpuProgram& code) {
  std::vector<int> bit(code.buffers.size(), -1);
  int externals = 0;
  for (size_t b = 0; b < code.buffers.size(); ++b)
    if (code.buffers[b].storage == Storage::kExternal) bit[b] = externals++;
  if (externals == 0) return std::nullopt;
  Bits defined(static_cast<size_t>(externals + 63) / 64, 0);
  const Bits everything(defined.size(), ~uint64_t{0});
  std::map<int, Bits> arriving;  // by target: what all branches to it have defined
  std::vector<int> begin_of = code.entries;
  for (const program::Subroutine& subroutine : code.subroutines) begin_of.push_back(subroutine.begin);
  auto begins = begin_of.begin();
  auto branch_to = [&](int target) {
    auto [at, is_new] = arriving.try_emplace(target, defined);
    if (!is_new) intersect(at->second, defined);
  };
  auto merge = [&](size_t i) {
    auto at = arriving.find(static_cast<int>(i));
    if (at == arriving.end()) return;
    intersect(defined, at->second);
    arriving.erase(at);
  };
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    for (; begins != begin_of.end() && *begins == static_cast<int>(i); ++begins) {
      arriving.clear();  // branches to the end of the code before
      defined.assign(defined.size(), 0);
    }
    merge(i);
    const Instruction& step = code.instructions[i];
    auto is_undefined = [&](const program::Operand& operand) {
      if (operand.buffer < 0 || bit[operand.buffer] < 0) return false;
      const int b = bit[operand.buffer];
      return (defined[b / 64] >> (b % 64) & 1) == 0;
    };
    for (const program::Operand& operand : step.operands)
      if (is_undefined(operand)) return UndefinedExternal{static_cast<int>(i), operand.buffer, false};
    for (const program::Operand& result : step.results) {
      const int b = bit[result.buffer];
      if (b >= 0 && program::defines_external(step.opcode)) defined[b / 64] |= uint64_t{1} << (b % 64);
      if (is_undefined(result)) return UndefinedExternal{static_cast<int>(i), result.buffer, true};
    }
    if (is_branch(step.opcode)) branch_to(step.target);
    if (step.opcode == Opcode::kLoop && step.trip == 0) branch_to(step.target + 1);
    if (step.opcode == Opcode::kJump || (step.opcode == Opcode::kLoop && step.trip == 0))
      defined = everything;  // nobody comes this way
  }
  return std::nullopt;
}

}  // namespace ipu::emulator
