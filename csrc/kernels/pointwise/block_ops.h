// The inner loops of the pointwise VM: one function per opcode, element type and direction of conversion,
// each over a block of elements. Chosen at prepare time for the active instruction set; run() only calls
// pointers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/pointwise/program.h"
#include "support/dtype.h"

namespace ipu::kernels {

// A source with stride 0 is one splatted value: kSplatBytes bytes that every vector of the block reads again.
struct BlockCall {
  size_t count = 0;
  void* result = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  size_t stride_a = 1, stride_b = 1, stride_c = 1;  // 0 or 1
  uint8_t halves = 0;  // bit k: source k is f16 in memory; for HalfBlockOps alone
};
inline constexpr size_t kSplatBytes = 64;

using BlockFunction = void (*)(const BlockCall&);

// An opcode on f32 and f16 sources in one pass, by what becomes of the result: f32, f32 rounded to f16, f16 in memory.
// nullptr: not one of the hot ones, or not on this machine. The results are those of separate passes.
struct HalfForms {
  BlockFunction wide = nullptr, rounded = nullptr, stored = nullptr;
};
struct HalfBlockOps {
  std::array<HalfForms, kOpCodeCount> single;
  HalfForms mul_add, minus_mul;  // a * b + c, c - a * b: the pairs of weight updates
};

struct BlockOps {
  std::array<BlockFunction, kOpCodeCount> compute{};  // nullptr: loads, constants, iota
  HalfBlockOps halves{};
  // Memory ↔ register by DType (nullptr: the VM does not know the type). A register element is 4 bytes.
  std::array<BlockFunction, 16> widen{}, narrow{};
  // Two f32 instructions in one pass, with the result of the two: second(first(a, b), c) or, for the reversed
  // ones, second(c, first(a, b)). nullptr when the pair is not one of the common ones.
  std::array<std::array<BlockFunction, 10>, 3> pairs{};
  // Steps of softmax and the losses in one pass each, on f32.
  BlockFunction exp_difference = nullptr;    // exp(a - b)
  BlockFunction subtract_twice = nullptr;    // (a - b) - c
  BlockFunction difference_times = nullptr;  // (a - b) * c
  BlockFunction minus_exp_times = nullptr;   // a - exp(b) * c
};

const BlockOps& block_ops();    // for active_isa()
HalfBlockOps half_block_ops();  // for block_ops()

// The entry of `pairs`, `is_left`: the first instruction's result is operand a of the second.
BlockFunction pair_function(const BlockOps& ops, OpCode first, OpCode second, bool is_left);

// Rarely used functions, through f64: 0.5 ulp, the same on every instruction set. nullptr when `code` is not
// one.
BlockFunction scalar_block_function(OpCode code);

}  // namespace ipu::kernels
