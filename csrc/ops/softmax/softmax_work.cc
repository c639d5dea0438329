#include "ops/softmax/softmax_work.h"

namespace ipu::ops {

std::vector<target::Work> softmax_work(const ir::Type& x, int64_t lines) {
  const target::Work reduction = reduction_of(x, lines);
  return {reduction, pass_over(x, {"Sub"}, 2), pass_over(x, {"Exp"}), reduction, pass_over(x, {"Mul"}, 2)};
}

std::vector<target::Work> softmax_gradient_work(const ir::Type& x, int64_t lines) {
  target::Work passes = pass_over(x, {"Mul"}, 2);
  passes.times = 3;
  return {passes, reduction_of(x, lines)};
}

}  // namespace ipu::ops
