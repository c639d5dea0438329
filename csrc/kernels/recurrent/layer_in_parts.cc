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

// What a cell computes of one sequence in one step: units from `first` on.
struct Units {
  const TimePlan& plan;
  const Memory<float>& memory;
  int64_t step, sequence, first, count;
  const float* sums;  // of the gates, each `count` long
  float* space;       // count

  int64_t row() const { return plan.row(plan.time(step), sequence); }
  bool is_last() const { return step + 1 == plan.steps; }
  // Of `count` units after the step before: result `r`, or operand `initial` where this is the first; zeros without one.
  const float* before(size_t r, size_t initial) const {
    if (step > 0) return memory.result(r) + plan.row(plan.time(step - 1), sequence) * plan.hidden + first;
    const float* const given = memory.operand(initial);
    return given == nullptr ? nullptr : given + sequence * plan.hidden + first;
  }
  float* row_of(size_t r) const { return memory.result(r) + row() * plan.hidden + first; }
  float* last_of(size_t r) const { return memory.result(r) + sequence * plan.hidden + first; }
  const float* x() const { return memory.operand(0) + row() * plan.columns + first; }
  float* gates() const { return memory.result(0) + row() * plan.columns + first; }
};

struct Lstm {
  static constexpr int64_t kGates = 4;

  static void run(const Units& u) {
    begin_rows(u.before(4, 3), u.space, 1, u.count);
    cell_loops().lstm(u.count, {.x = u.x(),
                                .sums = u.sums,
                                .cell = u.space,
                                .gates = u.gates(),
                                .output = u.row_of(1),
                                .stride = u.plan.hidden});
    store_row(u.space, u.row_of(4), u.count);
    if (!u.is_last()) return;
    store_row(u.row_of(1), u.last_of(2), u.count);
    store_row(u.space, u.last_of(3), u.count);
  }
};

struct Gru {
  static constexpr int64_t kGates = 3;

  static void run(const Units& u) {
    const float* const bias = u.memory.operand(3);
    begin_rows(u.before(1, 2), u.space, 1, u.count);
    cell_loops().gru(u.count, {.x = u.x(),
                               .sums = u.sums,
                               .bias = bias == nullptr ? nullptr : bias + u.first,
                               .state = u.space,
                               .gates = u.gates(),
                               .inner = u.row_of(3),
                               .stride = u.plan.hidden});
    store_row(u.space, u.row_of(1), u.count);
    if (u.is_last()) store_row(u.space, u.last_of(2), u.count);
  }
};

template <class Cell>
class LayerInParts final : public PreparedKernel {
 public:
  LayerInParts(const TimePlan& plan, uint64_t given, int parts)
      : plan_(plan), given_(given), parts_(parts), units_(plan.hidden / parts) {
    ProductShape shape;
    shape.m = plan.batch;
    shape.n = units_;
    shape.k = plan.outputs;
    shape.lda = plan.outputs;
    shape.b = plan.weight;
    shape.b.columns = units_;
    shape.ldc = Cell::kGates * units_;
    shape.max_lanes = 1;
    product_ = Product(shape);
    work_ = scratch_.add_bytes(product_.scratch_bytes());
    state_ = scratch_.add(plan.batch * plan.outputs);
    sums_ = scratch_.add(plan.batch * Cell::kGates * units_);
    space_ = scratch_.add(units_);
  }
  int lanes() const override { return parts_; }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

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
    const Memory<float> memory{call, given_};
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    float *const sums = scratch + sums_, *const state = scratch + state_;
    const int64_t hidden = plan_.hidden, row_sums = Cell::kGates * units_, first = part * units_;
    if (step > 0 || memory.operand(2) != nullptr) {
      for (int64_t r = 0; r < plan_.batch; ++r)
        store_row(step > 0 ? memory.result(1) + plan_.row(plan_.time(step - 1), r) * hidden
                           : memory.operand(2) + r * hidden,
                  state + r * hidden, hidden);
      const auto* const weight = reinterpret_cast<const float*>(call.operands[1]);
      for (int64_t gate = 0; gate < Cell::kGates; ++gate)
        product_.run(state, weight + (gate * hidden + first) * plan_.outputs, nullptr, sums + gate * units_,
                     reinterpret_cast<std::byte*>(scratch + work_), 0, meter);
    } else {
      begin_rows<float>(nullptr, sums, plan_.batch, row_sums);
    }
    for (int64_t r = 0; r < plan_.batch; ++r)
      Cell::run({plan_, memory, step, r, first, units_, sums + r * row_sums, scratch + space_});
    return !meter.stops(2 * plan_.batch * row_sums + 1);
  }

  const TimePlan plan_;
  const uint64_t given_;
  const int parts_;
  const int64_t units_;  // of the hidden state in a part
  Product product_{ProductShape{}};
  ScratchPlan scratch_;
  int64_t work_ = 0, state_ = 0, sums_ = 0, space_ = 0;
};

template <class Cell>
std::unique_ptr<PreparedKernel> in_parts(const TimePlan& plan, uint64_t given) {
  if (plan.lanes() > 1 || plan.dtype != DType::kF32 || plan.weight.form != MatrixSource::Form::kPanels ||
      plan.outputs != plan.hidden || plan.steps < 2)
    return nullptr;
  const int parts = parts_of(plan);
  if (parts < 2 || product_microseconds(plan.batch, plan.columns, plan.outputs) < kWorthParts) return nullptr;
  return std::make_unique<LayerInParts<Cell>>(plan, given, parts);
}

}  // namespace

std::unique_ptr<PreparedKernel> lstm_in_parts(const TimePlan& plan, uint64_t given) {
  return in_parts<Lstm>(plan, given);
}
std::unique_ptr<PreparedKernel> gru_in_parts(const TimePlan& plan, uint64_t given) {
  return in_parts<Gru>(plan, given);
}

}  // namespace ipu::kernels
