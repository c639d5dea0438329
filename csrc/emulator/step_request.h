// An instruction as a kernel is asked about it: when it is proven and when it is prepared.
#pragma once

#include <vector>

#include "kernels/kernel_table.h"
#include "program/program.h"

namespace ipu::emulator {

class StepRequest {
 public:
  explicit StepRequest(const program::Instruction& step) : attributes_(step.attributes) {
    for (const program::Operand& operand : step.operands) {
      if (operand.buffer < 0 && operands_.size() < 64) absent_ |= uint64_t{1} << operands_.size();
      operands_.push_back(operand.spec);
    }
    for (const program::Operand& result : step.results) results_.push_back(result.spec);
  }
  kernels::KernelRequest request() const { return {operands_, results_, attributes_, absent_}; }

 private:
  std::vector<TensorSpec> operands_, results_;
  const Attributes& attributes_;
  uint64_t absent_ = 0;
};

}  // namespace ipu::emulator
