// Ops on streaming memory.
#include <fmt/core.h>

#include <cstring>

#include "ir/structure.h"
#include "lowering/drafter.h"
#include "support/error.h"

namespace ipu::lowering {

namespace kind = ir::kind;
using program::Opcode;

void SharedTables::place_remote_buffer(int number, int ipu, const ir::Op& op) {
  placed_remote_buffers.resize(program->remote_buffers.size(), 0);
  program::RemoteBuffer& buffer = program->remote_buffers[static_cast<size_t>(number)];
  char& is_placed = placed_remote_buffers[static_cast<size_t>(number)];
  if (is_placed != 0 && buffer.ipu != ipu)
    throw Error(
        ErrorCode::kUnsupportedOps,
        fmt::format("unsupported remote buffer: @{} is touched on IPU {} and on IPU {}, which run side "
                    "by side.\n"
                    "  try:      touch it on one of them and copy the value to the other, or take a "
                    "remote buffer for each",
                    buffer.name, buffer.ipu, ipu))
        .at(ir::user_line(op.location));
  is_placed = 1;
  buffer.ipu = ipu;
}

int SharedTables::entry_number(int64_t entry) {
  auto [at, added] = entry_numbers.try_emplace(entry, static_cast<int>(program->constants.size()));
  if (!added) return at->second;
  IPU_CHECK(entry >= 0 && entry <= int64_t{UINT32_MAX}, fmt::format("entry {} of a remote buffer", entry));
  const auto number = static_cast<uint32_t>(entry);
  ConstantData data;
  data.dtype = DType::kU32;
  data.bytes.resize(sizeof number);
  std::memcpy(data.bytes.data(), &number, sizeof number);
  program->constants.push_back(std::make_shared<const ConstantData>(std::move(data)));
  return at->second;
}

// An entry that is known beforehand is an operand too.
void Drafter::emit_remote(const Scope& scope, const ir::Op& op) {
  const bool loads = op.is(kind::kRemoteLoad);
  const int offset = loads ? 0 : 1;
  const int number = shared_.remote_buffers.at(op.attributes.symbol("buffer").name);
  shared_.place_remote_buffer(number, ipu_, op);
  std::vector<DraftOperand> operands(static_cast<size_t>(offset) + 1);
  if (!loads) static_cast<View&>(operands[0]) = contiguous(scope, op.operand(0));
  View& entry = operands.back();
  if (op.operand_count() > offset)
    entry = contiguous(scope, op.operand(offset));
  else
    entry = new_buffer(TensorSpec::plain(DType::kU32, {}), "entry", program::Storage::kConstant,
                       shared_.entry_number(op.attributes.integer("entry", 0)));
  View result;
  if (loads) result = new_buffer(spec_of(op.result()->type()), op.result()->name());
  DraftStep& step = add(loads ? Opcode::kRemoteLoad : Opcode::kRemoteStore, shared_.origin(op));
  step.object = number;
  step.operands = std::move(operands);
  if (!loads) return;
  step.results.push_back(result);
  place_of(scope, op.result()) = result;
}

}  // namespace ipu::lowering
