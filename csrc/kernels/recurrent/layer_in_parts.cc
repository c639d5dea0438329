// See layer_in_parts.h.
#include "kernels/recurrent/layer_in_parts.h"

#include "kernels/recurrent/cell_loops.h"
#include "kernels/recurrent/shared_steps.h"
#include "kernels/tile_gemm/panels.h"

namespace ipu::kernels {
namespace {

constexpr double kWorthParts = 4.0;  // microseconds of a step's product: lanes meet in each step

// Units of a part are whole panels of each gate.
int parts_of(const TimePlan& plan) {
  const int64_t width = panel_width(plan.columns);
  for (const int parts : {4, 2})
    if (plan.hidden % (parts * width) == 0 && plan.hidden / parts >= 2 * width) return parts;
  return 1;
}

// Rows of the gates of some units, `hidden` apart in memory: f32 where they are, f16 as dense f32 in `space`.
inline int64_t gate_stride(const float*, int64_t hidden, int64_t) { return hidden; }
inline int64_t gate_stride(const Half*, int64_t, int64_t units) { return units; }
inline const float* read_gates(const float* from, float*, int64_t, int64_t, int64_t) { return from; }
inline const float* read_gates(const Half* from, float* space, int64_t gates, int64_t hidden, int64_t units) {
  if (from == nullptr) return nullptr;
  widen_rows(from, hidden, space, units, gates, units);
  return space;
}
inline void store_gates(const float*, float*, int64_t, int64_t, int64_t) {}
inline void store_gates(const float* made, Half* to, int64_t gates, int64_t hidden, int64_t units) {
  narrow_rows(made, units, to, hidden, gates, units);
}

// What a cell computes of one sequence in one step: units from `first` on.
template <class T>
struct Units {
  const TimePlan& plan;
  const Memory<T>& memory;
  int64_t step, sequence, first, count;
  const float* sums;    // of the gates, each `count` long
  const float* before;  // the state of these units before the step
  float *after, *cell;  // after it; what the cell keeps from step to step
  float *gate_space, *bias_space, *inner_space;

  int64_t row() const { return plan.row(plan.time(step), sequence); }
  bool is_last() const { return step + 1 == plan.steps; }
  int64_t stride() const { return gate_stride(memory.result(0), plan.hidden, count); }
  T* row_of(size_t r) const { return memory.result(r) + row() * plan.hidden + first; }
  T* last_of(size_t r) const { return memory.result(r) + sequence * plan.hidden + first; }
  T* gates() const { return memory.result(0) + row() * plan.columns + first; }
  const float* x(int64_t parts) const {
    return read_gates(memory.operand(0) + row() * plan.columns + first, gate_space, parts, plan.hidden,
                      count);
  }
};

struct Lstm {
  static constexpr int64_t kGates = 4;

  template <class T>
  static void run(const Units<T>& u) {
    if (u.step == 0)
      begin_rows(u.memory.operand_rows(3, u.sequence * u.plan.hidden + u.first), u.cell, 1, u.count);
    float* const made = made_at(u.gates(), u.gate_space);
    cell_loops().lstm(u.count, {.x = u.x(kGates),
                                .sums = u.sums,
                                .cell = u.cell,
                                .gates = made,
                                .output = u.after,
                                .stride = u.stride()});
    store_gates(made, u.gates(), kGates, u.plan.hidden, u.count);
    store_row(u.after, u.row_of(1), u.count);
    store_row(u.cell, u.row_of(4), u.count);
    if (!u.is_last()) return;
    store_row(u.after, u.last_of(2), u.count);
    store_row(u.cell, u.last_of(3), u.count);
  }
};

struct Gru {
  static constexpr int64_t kGates = 3;

  template <class T>
  static void run(const Units<T>& u) {
    store_row(u.before, u.after, u.count);
    float* const made = made_at(u.gates(), u.gate_space);
    float* const inner = made_at(u.row_of(3), u.inner_space);
    cell_loops().gru(u.count, {.x = u.x(kGates),
                               .sums = u.sums,
                               .bias = read_gates(u.memory.operand_rows(3, u.first), u.bias_space, kGates,
                                                  u.plan.hidden, u.count),
                               .state = u.after,
                               .gates = made,
                               .inner = inner,
                               .stride = u.stride()});
    store_gates(made, u.gates(), kGates, u.plan.hidden, u.count);
    store_made(inner, u.row_of(3), u.count);
    store_row(u.after, u.row_of(1), u.count);
    if (u.is_last()) store_row(u.after, u.last_of(2), u.count);
  }
};

// States are f32 in memory that the lanes share: two, of this step and the one before, and what cells keep.
template <class Cell, class T>
class LayerInParts final : public PreparedKernel {
 public:
  LayerInParts(const TimePlan& plan, uint64_t given, int parts)
      : plan_(plan), given_(given), parts_(parts), units_(plan.hidden / parts) {
    MatrixSource gate = plan.weight;
    gate.columns = units_;
    product_ = StepProduct(gate, plan.dtype, plan.batch, plan.batch, plan.steps, Cell::kGates * units_);
    work_ = scratch_.add_bytes(product_.scratch_bytes());
    sums_ = scratch_.add(plan.batch * Cell::kGates * units_);
    gates_ = scratch_.add(Cell::kGates * units_);
    bias_ = scratch_.add(Cell::kGates * units_);
    inner_ = scratch_.add(units_);
    first_state_ = scratch_.add(plan.batch * plan.hidden);
    states_ = scratch_.add_bytes(shared_bytes());
  }
  int lanes() const override { return parts_; }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }
  int64_t shared_bytes() const override {
    return 3 * plan_.batch * plan_.hidden * static_cast<int64_t>(sizeof(float));
  }
  bool copies_weight() const { return product_.copies_weight(); }

  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    if (call.shared == nullptr) {
      for (int64_t step = 0; lane == 0 && step < plan_.steps; ++step)
        for (int part = 0; part < parts_; ++part)
          if (!do_part(call, step, part, meter)) return;
      return;
    }
    SharedSteps steps(call, parts_);
    for (int64_t step = 0; step < plan_.steps; ++step) {
      if (!steps.wait_for(step)) return;
      for (int i = 0; i < parts_; ++i) {
        const int part = (lane + i) % parts_;
        if (!steps.take(step, part)) continue;
        if (!do_part(call, step, part, meter)) return;
        steps.completed();
      }
    }
  }

 private:
  // False: stopped.
  bool do_part(const KernelCall& call, int64_t step, int part, StopMeter& meter) const {
    const Memory<T> memory{call, given_};
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    float* const states =
        call.shared == nullptr ? scratch + states_ : reinterpret_cast<float*>(call.shared_memory);
    const int64_t hidden = plan_.hidden, row_sums = Cell::kGates * units_, first = part * units_,
                  size = plan_.batch * hidden;
    float *const sums = scratch + sums_, *const cells = states + 2 * size;
    float *const before = states + (step + 1) % 2 * size, *const after = states + step % 2 * size;
    const float* state = before;
    if (step == 0) {
      begin_rows(memory.operand(2), scratch + first_state_, plan_.batch, hidden);
      state = scratch + first_state_;
    }
    if (step > 0 || memory.operand(2) != nullptr) {
      const auto* const weight = reinterpret_cast<const T*>(call.operands[1]);
      for (int64_t gate = 0; gate < Cell::kGates; ++gate)
        product_.run(state, reinterpret_cast<const std::byte*>(weight + (gate * hidden + first) * hidden),
                     sums + gate * units_, plan_.batch, reinterpret_cast<std::byte*>(scratch + work_), meter);
    } else {
      begin_rows<float>(nullptr, sums, plan_.batch, row_sums);
    }
    for (int64_t r = 0; r < plan_.batch; ++r) {
      const int64_t at = r * hidden + first;
      Cell::template run<T>({plan_, memory, step, r, first, units_, sums + r * row_sums, state + at,
                             after + at, cells + at, scratch + gates_, scratch + bias_, scratch + inner_});
    }
    return !meter.stops(2 * plan_.batch * row_sums + 1);
  }

  const TimePlan plan_;
  const uint64_t given_;
  const int parts_;
  const int64_t units_;  // of the hidden state in a part
  StepProduct product_;
  ScratchPlan scratch_;
  int64_t work_ = 0, sums_ = 0, gates_ = 0, bias_ = 0, inner_ = 0, first_state_ = 0,
          states_ = 0;  // `states_`: of a call without shared memory
};

template <class Cell, class T>
std::unique_ptr<PreparedKernel> of_type(const TimePlan& plan, uint64_t given, int parts) {
  auto kernel = std::make_unique<LayerInParts<Cell, T>>(plan, given, parts);
  if (kernel->copies_weight()) return nullptr;
  return kernel;
}

template <class Cell>
std::unique_ptr<PreparedKernel> in_parts(const TimePlan& plan, uint64_t given) {
  if (plan.lanes() > 1 || plan.weight.form != MatrixSource::Form::kPanels || plan.outputs != plan.hidden ||
      plan.steps < 2)
    return nullptr;
  const int parts = parts_of(plan);
  if (parts < 2 || product_microseconds(plan.batch, plan.columns, plan.outputs) < kWorthParts) return nullptr;
  if (plan.dtype == DType::kF16) return of_type<Cell, Half>(plan, given, parts);
  return of_type<Cell, float>(plan, given, parts);
}

}  // namespace

std::unique_ptr<PreparedKernel> lstm_in_parts(const TimePlan& plan, uint64_t given) {
  return in_parts<Lstm>(plan, given);
}
std::unique_ptr<PreparedKernel> gru_in_parts(const TimePlan& plan, uint64_t given) {
  return in_parts<Gru>(plan, given);
}

}  // namespace ipu::kernels
