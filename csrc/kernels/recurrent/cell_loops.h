// The pointwise part of a step of recurrent layers, on one row of f32: vector loops compiled for several
// instruction sets, with equal bits on all that have fused multiply-add. Gates are stored as they are used,
// after their function, one part of n elements behind the other. Not here: products, rows, time
// (kernels/recurrent/lstm.cc and others).
#pragma once

#include <cstdint>

namespace ipu::kernels {

struct LstmRow {
  const float* x;     // 4n: what comes from the input, in the order input, forget, cell, output
  const float* sums;  // 4n: what comes from the state
  float* cell;        // n: the cell, before and after
  float* gates;       // 4n; may be x
  float* output;      // n: of the step
  int64_t stride;     // between parts of x, and of gates; those of sums are n apart
};
struct LstmRowGradient {
  const float* gates;        // 4n
  const float* d_gates;      // 4n: what else reads them
  const float* cell;         // n: after the step
  const float* cell_before;  // n
  const float* d_output;     // n
  float* d_cell;             // n: of the cell after the step, then of the one before
  float* d_x;                // 4n
};

struct GruRow {
  const float* x;     // 3n: in the order reset, update, new
  const float* sums;  // 3n
  const float* bias;  // 3n: added to the sums; nullptr: none
  float* state;       // n: before and after
  float* gates;       // 3n; may be x
  float* inner;       // n: sums + bias of the part that the reset gate scales
  int64_t stride;     // between parts of x, of bias and of gates; those of sums are n apart
};
struct GruRowGradient {
  const float* gates;         // 3n
  const float* d_gates;       // 3n: what else reads them
  const float* inner;         // n
  const float* d_inner;       // n: what else reads it
  const float* state_before;  // n
  float* d_state;             // n: of the state after the step, then what goes by the products
  float* d_x;                 // 3n
  float* d_sums;              // 3n
};

struct CellLoops {
  void (*lstm)(int64_t n, const LstmRow& row);
  void (*lstm_gradient)(int64_t n, const LstmRowGradient& row);
  void (*gru)(int64_t n, const GruRow& row);
  void (*gru_gradient)(int64_t n, const GruRowGradient& row);
  // y = function(x + sums); y may be x. d_x = d_y * function'(where it gave y).
  void (*tanh)(int64_t n, const float* x, const float* sums, float* y);
  void (*tanh_gradient)(int64_t n, const float* y, const float* d_y, float* d_x);
  void (*relu)(int64_t n, const float* x, const float* sums, float* y);
  void (*relu_gradient)(int64_t n, const float* y, const float* d_y, float* d_x);
};

// Returns the loops for the instruction set in force.
const CellLoops& cell_loops();

}  // namespace ipu::kernels
