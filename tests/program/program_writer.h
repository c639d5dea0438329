// Hand-written programs for tests: a thin way to append buffers and instructions.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace ipu::program {

inline TensorSpec f32(Shape shape) { return TensorSpec::plain(DType::kF32, std::move(shape)); }
inline TensorSpec i32(Shape shape = {}) { return TensorSpec::plain(DType::kI32, std::move(shape)); }
inline TensorSpec boolean() { return TensorSpec::plain(DType::kBool, {}); }

class IpuWriter {
 public:
  IpuWriter(Program& program, int ipu) : program_(program), ipu_(ipu) {}

  // Arena buffers get offsets one behind the other unless `offset` is given.
  Operand arena(const TensorSpec& spec, std::string name = "", int64_t offset = -1) {
    IpuProgram& code = self();
    if (offset < 0) offset = code.arena_bytes;
    int64_t bytes = spec.stored_bytes();
    code.arena_bytes = std::max(code.arena_bytes, (offset + bytes + 63) / 64 * 64);
    return buffer({std::move(name), Storage::kArena, bytes, offset, -1}, spec);
  }
  Operand external(const TensorSpec& spec, std::string name = "") {
    return buffer({std::move(name), Storage::kExternal, spec.stored_bytes(), 0, -1}, spec);
  }
  Operand variable(int index) {
    const Variable& v = program_.variables[index];
    return buffer({v.name, Storage::kVariable, v.spec.stored_bytes(), 0, index}, v.spec);
  }
  // Adds a parameter of the subroutine that is begun next or is being written.
  Operand parameter(const TensorSpec& spec, std::string name = "") {
    return buffer({std::move(name), Storage::kParameter, spec.stored_bytes(), 0, -1}, spec);
  }
  // Behind the code of all entry points; returns its number.
  int subroutine(std::string name, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs) {
    Subroutine begun;
    begun.name = std::move(name);
    begun.begin = static_cast<int>(self().instructions.size());
    for (const Operand& input : inputs) begun.inputs.push_back(input.buffer);
    for (const Operand& output : outputs) begun.outputs.push_back(output.buffer);
    self().subroutines.push_back(std::move(begun));
    return static_cast<int>(self().subroutines.size()) - 1;
  }
  void end_subroutine() { move(Opcode::kReturn, -1, {}, {}); }
  void call(int subroutine, std::vector<Operand> operands, std::vector<Operand> results) {
    move(Opcode::kCall, subroutine, std::move(operands), std::move(results));
  }
  Operand constant(ConstantPtr data) {
    program_.constants.push_back(data);
    return buffer({"constant", Storage::kConstant, static_cast<int64_t>(data->bytes.size()), 0,
                   static_cast<int>(program_.constants.size()) - 1},
                  TensorSpec::plain(data->dtype, data->shape));
  }
  int kernel(std::string id, std::vector<Operand> operands, std::vector<Operand> results,
             Attributes attributes = {}) {
    Instruction step;
    step.kernel = std::move(id);
    step.operands = std::move(operands);
    step.results = std::move(results);
    step.attributes = std::move(attributes);
    step.origin = origin;
    return add(std::move(step));
  }
  int loop(int64_t trip) {
    Instruction step;
    step.opcode = Opcode::kLoop;
    step.trip = trip;
    step.counter = depth_++;
    self().counters = std::max(self().counters, depth_);
    open_.push_back(add(std::move(step)));
    return open_.back();
  }
  void end_loop() {
    Instruction step;
    step.opcode = Opcode::kEndLoop;
    step.target = open_.back();
    step.counter = --depth_;
    int end = add(std::move(step));
    self().instructions[open_.back()].target = end;
    open_.pop_back();
  }
  int counter() const { return depth_ - 1; }
  void read_counter(Operand result, int counter) {
    Instruction step;
    step.opcode = Opcode::kCounter;
    step.counter = counter;
    step.results = {std::move(result)};
    add(std::move(step));
  }
  int branch_if_not(Operand condition) {
    Instruction step;
    step.opcode = Opcode::kBranchIfNot;
    step.operands = {std::move(condition)};
    return add(std::move(step));
  }
  int branch_unless(int counter, int64_t low, int64_t high) {
    Instruction step;
    step.opcode = Opcode::kBranchUnlessCounter;
    step.counter = counter;
    step.low = low;
    step.high = high;
    return add(std::move(step));
  }
  int jump() {
    Instruction step;
    step.opcode = Opcode::kJump;
    return add(std::move(step));
  }
  void land(int branch) { self().instructions[branch].target = static_cast<int>(self().instructions.size()); }
  void load(int stream, Operand result) { move(Opcode::kStreamLoad, stream, {}, {std::move(result)}); }
  void place(int stream, Operand result) { move(Opcode::kStreamPlace, stream, {}, {std::move(result)}); }
  void store(int stream, Operand value) { move(Opcode::kStreamStore, stream, {std::move(value)}, {}); }
  void push(int ring, Operand value) { move(Opcode::kPush, ring, {std::move(value)}, {}); }
  void pop(int ring, Operand result) { move(Opcode::kPop, ring, {}, {std::move(result)}); }
  void release(int ring) { move(Opcode::kRelease, ring, {}, {}); }

  int origin = -1;  // of the kernels added from now on

 private:
  IpuProgram& self() { return program_.ipus[ipu_]; }
  Operand buffer(Buffer b, const TensorSpec& spec) {
    self().buffers.push_back(std::move(b));
    return {static_cast<int>(self().buffers.size()) - 1, 0, spec};
  }
  int add(Instruction step) {
    self().instructions.push_back(std::move(step));
    return static_cast<int>(self().instructions.size()) - 1;
  }
  void move(Opcode opcode, int object, std::vector<Operand> operands, std::vector<Operand> results) {
    Instruction step;
    step.opcode = opcode;
    step.object = object;
    step.operands = std::move(operands);
    step.results = std::move(results);
    add(std::move(step));
  }
  Program& program_;
  int ipu_;
  int depth_ = 0;
  std::vector<int> open_;
};

inline int add_stream(Program& program, std::string name, StreamMode mode, TensorSpec spec, int ipu = 0,
                      int64_t period = 1) {
  DType dtype = spec.dtype;
  program.streams.push_back({std::move(name), mode, std::move(spec), dtype, period, 1, ipu});
  return static_cast<int>(program.streams.size()) - 1;
}
inline int add_ring(Program& program, std::string name, int64_t bytes, int64_t capacity, int from, int to) {
  program.rings.push_back({std::move(name), bytes, capacity, from, to});
  return static_cast<int>(program.rings.size()) - 1;
}

}  // namespace ipu::program
