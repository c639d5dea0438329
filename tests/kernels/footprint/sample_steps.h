// Steps made from the samples of the ops.
#pragma once

#include <vector>

#include "tests/kernels/kernel_step.h"
#include "tests/ops/sample_graph.h"

namespace ipu::kernels::kernel_tests {

// One for every kernel that an op names for one of its samples, operands plain.
inline std::vector<KernelStep> steps_of_samples() {
  std::vector<KernelStep> steps;
  for (const ops::OpDef* def : ops::all_ops())
    for (const ops::Sample& sample : def->samples) {
      const ops::SampleGraph s = ops::build_sample(*def, sample);
      KernelStep step;
      auto spec = [](const ir::Value* value) {
        return value == nullptr ? TensorSpec{} : TensorSpec::plain(value->type().dtype, value->type().shape);
      };
      for (int i = 0; i < s.op->operand_count(); ++i) {
        step.operands.push_back(spec(s.op->operand(i)));
        if (s.op->operand(i) == nullptr) step.absent |= uint64_t{1} << i;
      }
      for (int i = 0; i < s.op->result_count(); ++i) step.results.push_back(spec(s.op->result(i)));
      for (const ops::KernelChoice& choice : def->kernels(*s.op)) {
        if (find_kernel(choice.id) == nullptr) continue;
        step.id = choice.id;
        step.attributes = choice.attributes;
        steps.push_back(step);
      }
    }
  return steps;
}

}  // namespace ipu::kernels::kernel_tests
