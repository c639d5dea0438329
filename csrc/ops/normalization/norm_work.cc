#include "ops/normalization/norm_work.h"

namespace ipu::ops {
namespace {

// A factor and a term, for each element or for each mean.
target::Work scale_and_add(const ir::Type& x, int64_t times) {
  target::Work pass = pass_over(x, {"Mul", "Add"}, 2);
  pass.times = times;
  return pass;
}

}  // namespace

std::vector<target::Work> norm_work(const ir::Op& op) {
  const ir::Type& x = op.operand(0)->type();
  // The sums of x and of its squares; then without the mean, by the deviation, by weight and bias.
  return {reduction_of(x, op.result(1)->type().elements(), 2), scale_and_add(x, 3)};
}

WorkRule norm_gradient_work(int means) {
  return [means](const ir::Op& op) -> std::vector<target::Work> {
    const ir::Type& x = op.operand(0)->type();
    const ir::Value* mean = op.operand(means);
    target::Work sums = reduction_of(x, mean == nullptr ? 1 : mean->type().elements(), 2);
    sums.times = 2;
    return {sums, scale_and_add(x, 4)};
  };
}

}  // namespace ipu::ops
