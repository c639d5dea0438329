// Ops that meet the same op of other replicas.
#include <fmt/core.h>

#include "kernels/kernel_table.h"
#include "lowering/drafter.h"
#include "lowering/kernel_choice.h"
#include "support/error.h"

namespace ipu::lowering {
namespace {

[[noreturn]] void fail(const ir::Op& op, const std::string& what) {
  throw Error(ErrorCode::kExecution, what).at(ir::user_line(op.location));
}

}  // namespace

void Drafter::emit_collective(const Scope& scope, const ir::Op& op) {
  const ops::OpDef& def = *ops::definition(op);
  ops::KernelChoice choice = def.kernels(op).at(0);
  const int64_t replicas = shared_.program->job_replicas();
  const ReplicaGrouping groups{
      choice.attributes.integer("group_stride"), choice.attributes.integer("group_size"), {}};
  if (const std::string problem = groups.problem(replicas); !problem.empty())
    fail(op, fmt::format("group does not fit: a group {}.", problem));
  const int64_t members = replicas / groups.count(replicas);
  if (choice.attributes.integer("root", 0) >= members)
    fail(op, fmt::format("broadcast has no root: member {} of a group of {}.",
                         choice.attributes.integer("root"), members));

  DraftOperand operand;
  static_cast<View&>(operand) = contiguous(scope, op.operand(0));
  operand.in_place = def.has(ops::kMayReuseFirstOperand);
  const View result = new_buffer(spec_of(op.result()->type()), op.result()->name());
  const std::vector<TensorSpec> operands(static_cast<size_t>(members), operand.spec),
      results(static_cast<size_t>(members), result.spec);
  const kernels::KernelDef* kernel = kernels::find_kernel(choice.id);
  if (kernel == nullptr || kernel->prepare({operands, results, choice.attributes}) == nullptr)
    throw_no_kernel(op);
  DraftStep& step = add(program::Opcode::kCollective, shared_.origin(op));
  step.kernel = choice.id;
  step.attributes = std::move(choice.attributes);
  step.operands.push_back(std::move(operand));
  step.results.push_back(result);
  place_of(scope, op.result()) = result;
}

}  // namespace ipu::lowering
