// Where I/O tiles that overlap the inner loop and the rest of their IPU meet.
#include <fmt/core.h>

#include "ir/builder.h"
#include "lowering/drafter.h"

namespace ipu::lowering {

using program::Opcode;

int SharedTables::barrier_ring(const Scope& scope, const ir::Op& barrier, int from, int to) {
  auto [at, added] =
      barrier_rings.try_emplace({&scope, &barrier, from, to}, static_cast<int>(program->rings.size()));
  if (added)
    program->rings.push_back(
        {fmt::format("{} {}", barrier.kind(), at->second), size_in_bytes(DType::kBool), 1, from, to});
  return at->second;
}

int SharedTables::token() {
  if (token_number < 0) {
    token_number = static_cast<int>(program->constants.size());
    program->constants.push_back(ir::make_scalar(DType::kBool, 1));
  }
  return token_number;
}

// Tiles that load wait for a token of their IPU, which waits for one of the tiles that store before it gives its own.
void Drafter::emit_barrier(const Scope& scope, const ir::Op& op) {
  if (nest_.processors() == nullptr) return;
  const int origin = shared_.origin(op);
  for (const Processors::Barrier& meeting : nest_.processors()->barriers()) {  // those that store first
    const int from = meeting.io_loads ? meeting.ipu : meeting.io;
    const int to = meeting.io_loads ? meeting.io : meeting.ipu;
    if (ipu_ == from) {
      DraftOperand token;
      static_cast<View&>(token) = new_buffer(TensorSpec::plain(DType::kBool, {}), "token",
                                             program::Storage::kConstant, shared_.token());
      DraftStep& step = add(Opcode::kPush, origin);
      step.object = shared_.barrier_ring(scope, op, from, to);
      step.operands.push_back(std::move(token));
    }
    if (ipu_ == to) {
      const View token = new_buffer(TensorSpec::plain(DType::kBool, {}), "token");
      DraftStep& step = add(Opcode::kPop, origin);
      step.object = shared_.barrier_ring(scope, op, from, to);
      step.results.push_back(token);
    }
  }
}

}  // namespace ipu::lowering
