// Highway bodies of cell_loops.h.
#include "kernels/recurrent/cell_loops.h"

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/cell_loops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Floats>;

// Some neighbouring elements of every part of a row: as many as a vector has, fewer at the end.
template <bool kWhole>
struct Place {
  size_t at, count;

  HWY_INLINE Vector load(const float* from) const {
    if constexpr (kWhole) return hn::LoadU(Floats(), from + at);
    return load_first(Floats(), from + at, count);
  }
  HWY_INLINE void store(Vector v, float* to) const {
    if constexpr (kWhole)
      hn::StoreU(v, Floats(), to + at);
    else
      store_first(Floats(), v, to + at, count);
  }
};

template <class Step>
HWY_INLINE void each_place(int64_t n, Step step) {
  const size_t all = static_cast<size_t>(n), width = hn::Lanes(Floats());
  size_t at = 0;
  for (; at + width <= all; at += width) step(Place<true>{at, width});
  if (at < all) step(Place<false>{at, all - at});
}

HWY_INLINE Vector one() { return hn::Set(Floats(), 1.0f); }
// Derivatives of sigmoid and tanh where they gave y, times d.
HWY_INLINE Vector through_sigmoid(Vector d, Vector y) { return hn::Mul(d, hn::NegMulAdd(y, y, y)); }
HWY_INLINE Vector through_tanh(Vector d, Vector y) { return hn::Mul(d, hn::NegMulAdd(y, y, one())); }

void lstm(int64_t n, const LstmRow& row) {
  const Floats d;
  each_place(n, [&](auto p) HWY_ATTR {
    auto part = [&](int k)
                    HWY_ATTR { return hn::Add(p.load(row.x + k * row.stride), p.load(row.sums + k * n)); };
    const Vector input = sigmoid(d, part(0)), forget = sigmoid(d, part(1)), candidate = tanh(d, part(2)),
                 output = sigmoid(d, part(3));
    const Vector cell = hn::MulAdd(forget, p.load(row.cell), hn::Mul(input, candidate));
    p.store(input, row.gates);
    p.store(forget, row.gates + row.stride);
    p.store(candidate, row.gates + 2 * row.stride);
    p.store(output, row.gates + 3 * row.stride);
    p.store(cell, row.cell);
    p.store(hn::Mul(output, tanh(d, cell)), row.output);
  });
}

void lstm_gradient(int64_t n, const LstmRowGradient& row) {
  const Floats d;
  each_place(n, [&](auto p) HWY_ATTR {
    const Vector input = p.load(row.gates), forget = p.load(row.gates + n),
                 candidate = p.load(row.gates + 2 * n), output = p.load(row.gates + 3 * n);
    const Vector shown = tanh(d, p.load(row.cell)), d_output = p.load(row.d_output);
    const Vector d_cell = hn::Add(p.load(row.d_cell), through_tanh(hn::Mul(d_output, output), shown));
    // of gate k, whose part in the result is d_cell or d_output times `factor`
    auto gate = [&](int k, Vector upstream, Vector factor)
                    HWY_ATTR { return hn::MulAdd(upstream, factor, p.load(row.d_gates + k * n)); };
    p.store(through_sigmoid(gate(0, d_cell, candidate), input), row.d_x);
    p.store(through_sigmoid(gate(1, d_cell, p.load(row.cell_before)), forget), row.d_x + n);
    p.store(through_tanh(gate(2, d_cell, input), candidate), row.d_x + 2 * n);
    p.store(through_sigmoid(gate(3, d_output, shown), output), row.d_x + 3 * n);
    p.store(hn::Mul(d_cell, forget), row.d_cell);
  });
}

void gru(int64_t n, const GruRow& row) {
  const Floats d;
  each_place(n, [&](auto p) HWY_ATTR {
    auto sum = [&](int k) HWY_ATTR {
      const Vector bias = row.bias == nullptr ? hn::Zero(d) : p.load(row.bias + k * row.stride);
      return hn::Add(p.load(row.sums + k * n), bias);
    };
    const Vector reset = sigmoid(d, hn::Add(p.load(row.x), sum(0))),
                 update = sigmoid(d, hn::Add(p.load(row.x + row.stride), sum(1))), inner = sum(2);
    const Vector made = tanh(d, hn::MulAdd(reset, inner, p.load(row.x + 2 * row.stride)));
    const Vector state = p.load(row.state);
    p.store(reset, row.gates);
    p.store(update, row.gates + row.stride);
    p.store(made, row.gates + 2 * row.stride);
    p.store(inner, row.inner);
    p.store(hn::MulAdd(update, hn::Sub(state, made), made), row.state);
  });
}

void gru_gradient(int64_t n, const GruRowGradient& row) {
  each_place(n, [&](auto p) HWY_ATTR {
    const Vector reset = p.load(row.gates), update = p.load(row.gates + n), made = p.load(row.gates + 2 * n);
    const Vector d_state = p.load(row.d_state), inner = p.load(row.inner);
    const Vector d_made =
        through_tanh(hn::Add(hn::NegMulAdd(d_state, update, d_state), p.load(row.d_gates + 2 * n)), made);
    const Vector d_update = through_sigmoid(
        hn::MulAdd(d_state, hn::Sub(p.load(row.state_before), made), p.load(row.d_gates + n)), update);
    const Vector d_reset = through_sigmoid(hn::MulAdd(d_made, inner, p.load(row.d_gates)), reset);
    p.store(d_reset, row.d_x);
    p.store(d_update, row.d_x + n);
    p.store(d_made, row.d_x + 2 * n);
    p.store(d_reset, row.d_sums);
    p.store(d_update, row.d_sums + n);
    p.store(hn::MulAdd(d_made, reset, p.load(row.d_inner)), row.d_sums + 2 * n);
    p.store(hn::Mul(d_state, update), row.d_state);
  });
}

void tanh_row(int64_t n, const float* x, const float* sums, float* y) {
  each_place(n, [&](auto p) HWY_ATTR { p.store(tanh(Floats(), hn::Add(p.load(x), p.load(sums))), y); });
}
void tanh_row_gradient(int64_t n, const float* y, const float* d_y, float* d_x) {
  each_place(n, [&](auto p) HWY_ATTR { p.store(through_tanh(p.load(d_y), p.load(y)), d_x); });
}

// A NaN stays one.
void relu_row(int64_t n, const float* x, const float* sums, float* y) {
  const Floats d;
  each_place(n, [&](auto p) HWY_ATTR {
    const Vector v = hn::Add(p.load(x), p.load(sums));
    p.store(hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v), y);
  });
}
void relu_row_gradient(int64_t n, const float* y, const float* d_y, float* d_x) {
  const Floats d;
  each_place(n, [&](auto p) HWY_ATTR {
    p.store(hn::IfThenZeroElse(hn::Le(p.load(y), hn::Zero(d)), p.load(d_y)), d_x);
  });
}

const CellLoops& target_cell_loops() {
  static const CellLoops loops{lstm,     lstm_gradient,     gru,      gru_gradient,
                               tanh_row, tanh_row_gradient, relu_row, relu_row_gradient};
  return loops;
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_cell_loops);
const CellLoops& cell_loops() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_cell_loops)();
}
}  // namespace ipu::kernels
#endif
