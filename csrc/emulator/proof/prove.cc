#include "emulator/proof/prove.h"

#include <fmt/core.h>

#include <algorithm>

#include "emulator/proof/prove_control.h"
#include "emulator/step_request.h"
#include "emulator/stored_form.h"
#include "kernels/footprint.h"
#include "support/error.h"

namespace ipu::emulator {
namespace {

using kernels::Extent;
using program::Buffer;
using program::Instruction;
using program::IpuProgram;
using program::Opcode;
using program::Operand;
using program::Program;
using program::Storage;

constexpr size_t kMaxRank = 32;
constexpr int64_t kAlignment = 64;                  // of the emulator's own memory
constexpr int64_t kMaxElements = int64_t{1} << 46;  // of one operand, repeated ones counted as often

class Prover {
 public:
  Prover(const Program& program, int ipu) : program_(program), ipu_(ipu), code_(program.ipus[ipu]) {}

  void run() {
    find_alignments();
    for (at_ = 0; at_ < code_.instructions.size(); ++at_) {
      const Instruction& step = code_.instructions[at_];
      for (const auto* list : {&step.operands, &step.results})
        for (const Operand& operand : *list) prove_operand(operand);
      if (step.opcode == Opcode::kKernel) prove_kernel(step);
      if (step.opcode == Opcode::kCollective) prove_collective(step);
      if (step.opcode == Opcode::kStreamLoad || step.opcode == Opcode::kStreamPlace)
        prove_external(step, program_.streams[step.object].spec.stored_bytes(), "an element of its stream");
      if (step.opcode == Opcode::kPop)
        prove_external(step, program_.rings[step.object].bytes, "an element of its ring");
    }
    if (const auto undefined = find_undefined_external(code_)) {
      at_ = undefined->instruction;
      refuse(fmt::format("{} {}, which nothing has defined before", undefined->writes ? "writes" : "reads",
                         code_.buffers[undefined->buffer].name));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kInvalidProgram,
                fmt::format("invalid program: {}: {}",
                            program::describe(program_, ipu_, static_cast<int>(at_)), what));
  }

  // The host's tensors are aligned to their own elements, whatever a step takes them for; what a call hands over is
  // to those that the call says.
  void find_alignments() {
    alignments_.assign(code_.buffers.size(), kAlignment);
    for (const Instruction& step : code_.instructions) {
      if (step.opcode == Opcode::kCall) {
        const program::Subroutine& called = code_.subroutines[step.object];
        for (size_t i = 0; i < called.inputs.size(); ++i) hand_over(step.operands[i], called.inputs[i]);
        for (size_t i = 0; i < called.outputs.size(); ++i) hand_over(step.results[i], called.outputs[i]);
      }
      if (step.opcode != Opcode::kStreamLoad && step.opcode != Opcode::kStreamPlace) continue;
      int64_t& alignment = alignments_[step.results[0].buffer];
      if (code_.buffers[step.results[0].buffer].storage == Storage::kExternal)
        alignment = std::min(alignment, size_in_bytes(program_.streams[step.object].host_dtype));
    }
  }

  void hand_over(const Operand& given, int parameter) {
    alignments_[parameter] = std::min(alignments_[parameter], size_in_bytes(given.spec.dtype));
  }

  // What everything else here may rely on: element counts that do not overflow, aligned addresses.
  void prove_operand(const Operand& operand) const {
    const TensorSpec& spec = operand.spec;
    if (spec.shape.size() > kMaxRank)
      refuse(fmt::format("has an operand of {} dimensions", spec.shape.size()));
    int64_t elements = 1;
    for (int64_t extent : spec.shape) {
      if (extent < 0) refuse("has an operand with a negative extent");
      if (extent == 0) return;
      if (__builtin_mul_overflow(elements, extent, &elements) || elements > kMaxElements)
        refuse("has an operand with too many elements");
    }
    if (operand.buffer < 0) return;
    const int64_t offset = code_.buffers[operand.buffer].offset + operand.byte_offset;
    if (offset % size_in_bytes(spec.dtype) != 0 || size_in_bytes(spec.dtype) > alignments_[operand.buffer])
      refuse("has an operand that is not aligned to its elements");
  }

  void prove_kernel(const Instruction& step) const {
    const kernels::KernelDef* def = kernels::find_kernel(step.kernel);
    if (def == nullptr) refuse("no such kernel");
    if (def->footprint == nullptr) refuse("this kernel does not say what it touches");
    kernels::Footprint footprint;
    try {
      footprint = def->footprint(StepRequest(step).request());
    } catch (const Error& error) {
      refuse(error.message());
    }
    IPU_CHECK(
        footprint.operands.size() == step.operands.size() && footprint.results.size() == step.results.size(),
        fmt::format("the statement of kernel {} has another number of operands", step.kernel));
    for (size_t i = 0; i < step.operands.size(); ++i)
      prove_extent(step.operands[i], footprint.operands[i], "reads", fmt::format("operand {}", i));
    for (size_t i = 0; i < step.results.size(); ++i)
      prove_extent(step.results[i], footprint.results[i], "writes", fmt::format("result {}", i));
  }

  // As the kernel it is: from what all members of a group have to what all of them get.
  void prove_collective(const Instruction& step) const {
    const kernels::KernelDef* def = kernels::find_kernel(step.kernel);
    if (def == nullptr || def->footprint == nullptr) refuse("no such kernel");
    kernels::Footprint footprint;
    try {
      footprint = def->footprint(CollectiveRequest(program_, step).request());
    } catch (const Error& error) {
      refuse(error.message());
    }
    prove_extent(step.operands[0], footprint.operands.at(0), "reads", "operand 0");
    prove_extent(step.results[0], footprint.results.at(0), "writes", "result 0");
  }

  void prove_extent(const Operand& operand, const Extent& extent, const char* does,
                    const std::string& which) const {
    if (extent.begin >= extent.end) return;
    if (operand.buffer < 0) refuse(fmt::format("{} {}, which is absent", does, which));
    const Buffer& buffer = code_.buffers[operand.buffer];
    int64_t begin = 0, end = 0;
    if (__builtin_add_overflow(operand.byte_offset, extent.begin, &begin) ||
        __builtin_add_overflow(operand.byte_offset, extent.end, &end) || begin < 0 || end > buffer.bytes)
      refuse(fmt::format("{} bytes {} to {} of {}, which starts at byte {} of buffer {} ({}) of {} bytes",
                         does, extent.begin, extent.end, which, operand.byte_offset, operand.buffer,
                         buffer.name, buffer.bytes));
  }

  void prove_external(const Instruction& step, int64_t bytes, const char* of) const {
    const Buffer& buffer = code_.buffers[step.results[0].buffer];
    if (buffer.storage == Storage::kExternal && buffer.bytes > bytes)
      refuse(fmt::format("buffer {} of {} bytes is larger than {}, {} bytes", buffer.name, buffer.bytes, of,
                         bytes));
  }

  const Program& program_;
  const int ipu_;
  const IpuProgram& code_;
  std::vector<int64_t> alignments_;  // per buffer, in bytes
  size_t at_ = 0;
};

}  // namespace

void prove_program(const Program& program) {
  for (const program::Variable& variable : program.variables) prove_forms(variable);
  for (size_t i = 0; i < program.ipus.size(); ++i) Prover(program, static_cast<int>(i)).run();
}

}  // namespace ipu::emulator
