// Shared by the ops that meet other replicas: checks of the group, and the reductions they offer. A group is
// `group_size` replicas, `group_stride` apart; size 0: all replicas.
// PopART's and PopXL's CommGroup over R replicas: All = (0, 1), Consecutive s = (s, 1), Orthogonal s = (s, R
// / s), Ungrouped = (1, 1); their collective operators add, mean, mul, min, max, and, or, square_add and
// local are sum, mean, prod, min, max, and, or, square_sum and local here.
#pragma once

#include <string_view>
#include <vector>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {

inline constexpr DTypeSet kReducible =
    bit(DType::kF32) | bit(DType::kF16) | bit(DType::kI32) | bit(DType::kU32) | bit(DType::kF64) | kBoolean;
inline constexpr DTypeSet kReducibleByReplicas =
    kReducible | bit(DType::kI16) | bit(DType::kU16) | bit(DType::kI8) | bit(DType::kU8);

// Each throws Error(kTypeMismatch).
void check_group(const InferContext& context);
int64_t stated_group_size(const InferContext& context);  // for ops whose result shape follows from it
void check_reduction(const InferContext& context, bool may_be_local);

// `op` over tensors of one type, added in their order, in f64.
std::vector<double> reduced_over(std::string_view op, const std::vector<const ReferenceTensor*>& tensors);
// The first operand of every member.
std::vector<const ReferenceTensor*> first_operands(const CollectiveCall& call);

// The kernel of a collective has the name of its op. Its operands are those of all members (kernels/collective);
// the machine brings them together.
std::vector<KernelChoice> group_kernel(const ir::Op& op);

// Between the replicas of the group, `whole` being what all of them have together.
std::vector<target::Work> collective_work(const ir::Op& op, target::Collective collective,
                                          const ir::Type& whole);

// Attributes that name the group of `g`'s op, with `more`.
Attributes same_group(const GradientBuilder& g, Attributes more);
// Reaching this gradient is an error at the user's line.
[[noreturn]] void refuse_gradient(const GradientBuilder& g, const std::string& why);

}  // namespace ipu::ops
