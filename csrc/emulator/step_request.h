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

// The same for a collective: operands and results of all members of a group.
class CollectiveRequest {
 public:
  CollectiveRequest(const program::Program& program, const program::Instruction& step)
      : attributes_(step.attributes) {
    const int64_t size = program::group_of(step).size;
    const auto members = static_cast<size_t>(size > 0 ? size : program.job_replicas());
    operands_.assign(members, step.operands[0].spec);
    results_.assign(members, step.results[0].spec);
  }
  kernels::KernelRequest request() const { return {operands_, results_, attributes_}; }

 private:
  std::vector<TensorSpec> operands_, results_;
  const Attributes& attributes_;
};

}  // namespace ipu::emulator
