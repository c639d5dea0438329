// Brings a program that was edited in line again, as far as that is easy: types of results follow operands,
// buffers hold what steps need, the arena has room for all of them at once, streams and signature agree. What
// it cannot mend it leaves, for the reader to refuse.
#pragma once

#include <algorithm>
#include <vector>

#include "executable/signature.h"
#include "ir/module.h"
#include "ops/definition/build.h"
#include "program/program.h"
#include "support/error.h"

namespace ipu::testing_hostile {

// Bytes a spec needs; 0 where it makes no sense.
inline int64_t extent_or_zero(const TensorSpec& spec) {
  try {
    for (int64_t n : spec.shape)
      if (n < 0) return 0;
    for (int64_t n : spec.strides)
      if (n < 0) return 0;
    if (spec.strides.size() != spec.shape.size()) return 0;
    if (!spec.layout.is_supported(spec.shape)) return 0;
    return program::extent_bytes(spec);
  } catch (const Error&) {
    return 0;
  }
}

class Repair {
 public:
  Repair(program::Program& program, executable::Signature& signature)
      : program_(program), signature_(signature) {}

  void run(bool streams_follow_steps) {
    for (program::IpuProgram& ipu : program_.ipus) {
      for (size_t n = 0; n < ipu.instructions.size(); ++n) {
        program::Instruction& step = ipu.instructions[n];
        if (step.opcode == program::Opcode::kKernel) infer(ipu, n);
        if (step.opcode == program::Opcode::kStreamLoad || step.opcode == program::Opcode::kStreamPlace ||
            step.opcode == program::Opcode::kStreamStore)
          match_stream(ipu, n, streams_follow_steps);
        if (step.opcode == program::Opcode::kPush && !step.operands.empty() && has_ring(step))
          program_.rings[step.object].bytes = extent_or_zero(step.operands[0].spec);
      }
      fit_buffers(ipu);
    }
    match_signature();
  }

  template <class Visit>
  static void each_spec(program::Program& program, Visit visit) {
    for (program::IpuProgram& ipu : program.ipus)
      for (program::Instruction& step : ipu.instructions)
        for (auto* list : {&step.operands, &step.results})
          for (program::Operand& operand : *list) visit(operand.spec);
    for (program::Stream& stream : program.streams) visit(stream.spec);
    for (program::Variable& variable : program.variables) visit(variable.spec);
  }

  // The writer multiplies extents to see whether strides are worth writing: products must fit.
  static void make_writable(TensorSpec& spec) {
    int64_t product = 1;
    for (size_t d = spec.shape.size(); d-- > 0;) {
      int64_t with_this = 0;
      if (__builtin_mul_overflow(product, std::max<int64_t>(spec.shape[d], 1), &with_this))
        spec.shape[d] = 1;
      else
        product = with_this;
    }
  }

 private:
  static constexpr int64_t kLarge = int64_t{1} << 32;

  bool has_ring(const program::Instruction& step) const {
    return step.object >= 0 && static_cast<size_t>(step.object) < program_.rings.size();
  }
  static bool makes_sense(const TensorSpec& spec) {
    TensorSpec same = spec;
    make_writable(same);
    return extent_or_zero(spec) > 0 && same == spec &&
           std::none_of(spec.shape.begin(), spec.shape.end(), [](int64_t n) { return n > kLarge; });
  }

  // Gives a result another spec, and the steps behind that read it too.
  static void retype(program::IpuProgram& ipu, size_t from, program::Operand& result, TensorSpec spec) {
    const TensorSpec old = std::exchange(result.spec, spec);
    for (size_t n = from + 1; n < ipu.instructions.size(); ++n)
      for (program::Operand& operand : ipu.instructions[n].operands)
        if (operand.buffer == result.buffer && operand.spec == old) operand.spec = spec;
  }

  void infer(program::IpuProgram& ipu, size_t n) {
    program::Instruction& step = ipu.instructions[n];
    const ops::OpDef* def = ops::find_op(step.kernel);
    if (def == nullptr || def->results.empty()) {
      if (step.kernel == "pointwise") broadcast(ipu, n);
      return;
    }
    try {
      ir::Module module;
      ir::Graph* scratch = module.add_graph("scratch");
      std::vector<ir::Value*> operands;
      for (const program::Operand& operand : step.operands) {
        if (operand.spec.layout.is_blocked()) return;
        if (operand.buffer >= 0 && !makes_sense(operand.spec)) return;
        operands.push_back(operand.buffer < 0 ? nullptr
                                              : scratch->add_input({operand.spec.dtype, operand.spec.shape}));
      }
      std::vector<ir::Type> types = ops::infer_types(def->name, operands, step.attributes);
      for (size_t r = 0; r < std::min(types.size(), step.results.size()); ++r) {
        TensorSpec& have = step.results[r].spec;
        if (have.layout.is_blocked() || (types[r].dtype == have.dtype && types[r].shape == have.shape))
          continue;
        TensorSpec spec{types[r].dtype, types[r].shape, {}, have.layout};
        make_writable(spec);
        spec.strides = contiguous_strides(spec.shape);
        retype(ipu, n, step.results[r], spec);
      }
    } catch (const Error&) {
    }
  }

  static void broadcast(program::IpuProgram& ipu, size_t n) {
    program::Instruction& step = ipu.instructions[n];
    try {
      Shape shape;
      for (const program::Operand& operand : step.operands) {
        if (!makes_sense(operand.spec)) return;
        shape = broadcast_shapes(shape, operand.spec.shape);
      }
      for (program::Operand& result : step.results)
        if (result.spec.shape != shape && result.spec.layout == Layout::kPlain)
          retype(ipu, n, result, TensorSpec::plain(result.spec.dtype, shape));
    } catch (const Error&) {
    }
  }

  void match_stream(program::IpuProgram& ipu, size_t n, bool stream_follows) {
    program::Instruction& step = ipu.instructions[n];
    if (step.object < 0 || static_cast<size_t>(step.object) >= program_.streams.size()) return;
    program::Stream& stream = program_.streams[step.object];
    const bool loads = step.opcode != program::Opcode::kStreamStore;  // or asks for a place
    auto& list = loads ? step.results : step.operands;
    if (list.empty() || list[0].spec == stream.spec) return;
    if (stream_follows || !loads) {
      if (stream.host_dtype == stream.spec.dtype) stream.host_dtype = list[0].spec.dtype;
      stream.spec = list[0].spec;
    } else {
      retype(ipu, n, list[0], stream.spec);
    }
  }

  void fit_buffers(program::IpuProgram& ipu) {
    std::vector<int64_t> needed(ipu.buffers.size(), 0);
    std::vector<const TensorSpec*> of(ipu.buffers.size(), nullptr);
    for (const program::Instruction& step : ipu.instructions) {
      for (const auto* list : {&step.operands, &step.results}) {
        for (const program::Operand& operand : *list) {
          if (operand.buffer < 0 || static_cast<size_t>(operand.buffer) >= needed.size()) continue;
          if (operand.byte_offset < 0 || operand.byte_offset > (int64_t{1} << 45)) continue;
          const int64_t bytes = operand.byte_offset + extent_or_zero(operand.spec);
          if (bytes > needed[operand.buffer]) of[operand.buffer] = &operand.spec;
          needed[operand.buffer] = std::max(needed[operand.buffer], bytes);
        }
      }
    }
    bool grown = false;
    for (size_t b = 0; b < ipu.buffers.size(); ++b) {
      program::Buffer& buffer = ipu.buffers[b];
      if (of[b] == nullptr || needed[b] <= buffer.bytes) continue;
      buffer.bytes = needed[b];
      grown |= buffer.storage == program::Storage::kArena;
      if (buffer.storage == program::Storage::kVariable && buffer.index >= 0 &&
          static_cast<size_t>(buffer.index) < program_.variables.size() && buffer.offset == 0)
        program_.variables[buffer.index].spec = *of[b];
    }
    if (!grown) return;
    ipu.arena_bytes = 0;
    for (program::Buffer& buffer : ipu.buffers) {
      if (buffer.storage != program::Storage::kArena || buffer.bytes > kLarge || buffer.bytes < 0) continue;
      buffer.offset = ipu.arena_bytes;
      ipu.arena_bytes += (buffer.bytes + 63) / 64 * 64;
    }
  }

  void match_signature() {
    auto whole = [&](int stream, int64_t items, Shape& shape) {
      if (stream < 0 || static_cast<size_t>(stream) >= program_.streams.size()) return;
      Shape element = program_.streams[stream].spec.shape;
      if (element.empty() && items != 1) element.push_back(1);
      if (!element.empty() && __builtin_mul_overflow(element[0], items, &element[0])) return;
      shape = element;
    };
    for (auto& input : signature_.inputs)
      if (!input.streams.empty()) whole(input.streams[0], input.items, input.shape);
    for (auto& output : signature_.outputs) whole(output.stream, output.items, output.shape);
    for (auto& mutated : signature_.mutated)
      whole(mutated.output.stream, mutated.output.items, mutated.output.shape);
  }

  program::Program& program_;
  executable::Signature& signature_;
};

}  // namespace ipu::testing_hostile
