// See lstm_in_parts.h.
#include "kernels/recurrent/lstm_in_parts.h"

#include "kernels/recurrent/cell_loops.h"
#include "kernels/recurrent/shared_steps.h"
#include "kernels/tile_gemm/panels.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kGates = 4;
constexpr double kWorthParts = 4.0;  // microseconds of a step's product: lanes meet in each step

// Units of a part are whole panels of each gate.
int parts_of(const TimePlan& plan) {
  const int64_t width = panel_width(plan.columns);
  for (const int parts : {4, 2})
    if (plan.hidden % (parts * width) == 0 && plan.hidden / parts >= 2 * width) return parts;
  return 1;
}

class LstmInParts final : public PreparedKernel {
 public:
  LstmInParts(const TimePlan& plan, uint64_t given, int parts)
      : plan_(plan), given_(given), parts_(parts), units_(plan.hidden / parts) {
    ProductShape shape;
    shape.m = plan.batch;
    shape.n = units_;
    shape.k = plan.outputs;
    shape.lda = plan.outputs;
    shape.b = plan.weight;
    shape.b.columns = units_;
    shape.ldc = kGates * units_;
    shape.max_lanes = 1;
    product_ = Product(shape);
    work_ = scratch_.add_bytes(product_.scratch_bytes());
    state_ = scratch_.add(plan.batch * plan.outputs);
    sums_ = scratch_.add(plan.batch * kGates * units_);
    cell_ = scratch_.add(units_);
  }
  int lanes() const override { return parts_; }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    if (call.shared == nullptr) {
      StopMeter meter(call);
      for (int64_t step = 0; lane == 0 && step < plan_.steps; ++step)
        for (int part = 0; part < parts_; ++part)
          if (!do_part(call, step, part, meter)) return;
      return;
    }
    SharedSteps steps(call, parts_);
    StopMeter meter(call);
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
    float *const sums = scratch + sums_, *const cell = scratch + cell_;
    const int64_t hidden = plan_.hidden, columns = plan_.columns, row_sums = kGates * units_,
                  first_unit = part * units_, time = plan_.time(step);
    const int64_t before = step > 0 ? plan_.time(step - 1) : -1;
    if (step > 0 || memory.operand(2) != nullptr) {
      float* const state = scratch + state_;
      for (int64_t r = 0; r < plan_.batch; ++r)
        store_row(
            step > 0 ? memory.result(1) + plan_.row(before, r) * hidden : memory.operand(2) + r * hidden,
            state + r * hidden, hidden);
      const auto* const weight = reinterpret_cast<const float*>(call.operands[1]);
      for (int64_t gate = 0; gate < kGates; ++gate)
        product_.run(state, weight + (gate * hidden + first_unit) * plan_.outputs, nullptr,
                     sums + gate * units_, call.scratch + work_ * static_cast<int64_t>(sizeof(float)), 0,
                     meter);
    } else {
      begin_rows<float>(nullptr, sums, plan_.batch, row_sums);
    }
    for (int64_t r = 0; r < plan_.batch; ++r) {
      const int64_t row = plan_.row(time, r);
      const float* cell_before = nullptr;
      if (step > 0)
        cell_before = memory.result(4) + plan_.row(before, r) * hidden + first_unit;
      else if (memory.operand(3) != nullptr)
        cell_before = memory.operand(3) + r * hidden + first_unit;
      begin_rows(cell_before, cell, 1, units_);
      cell_loops().lstm(units_, {.x = memory.operand(0) + row * columns + first_unit,
                                 .sums = sums + r * row_sums,
                                 .cell = cell,
                                 .gates = memory.result(0) + row * columns + first_unit,
                                 .output = memory.result(1) + row * hidden + first_unit,
                                 .stride = hidden});
      store_row(cell, memory.result(4) + row * hidden + first_unit, units_);
      if (step + 1 < plan_.steps) continue;
      store_row(memory.result(1) + row * hidden + first_unit, memory.result(2) + r * hidden + first_unit,
                units_);
      store_row(cell, memory.result(3) + r * hidden + first_unit, units_);
    }
    return !meter.stops(2 * plan_.batch * row_sums + 1);
  }

  const TimePlan plan_;
  const uint64_t given_;
  const int parts_;
  const int64_t units_;  // of the hidden state in a part
  Product product_{ProductShape{}};
  ScratchPlan scratch_;
  int64_t work_ = 0, state_ = 0, sums_ = 0, cell_ = 0;
};

}  // namespace

std::unique_ptr<PreparedKernel> lstm_in_parts(const TimePlan& plan, uint64_t given) {
  if (plan.lanes() > 1 || plan.dtype != DType::kF32 || plan.weight.form != MatrixSource::Form::kPanels ||
      plan.outputs != plan.hidden || plan.steps < 2)
    return nullptr;
  const int parts = parts_of(plan);
  if (parts < 2 || product_microseconds(plan.batch, plan.columns, plan.outputs) < kWorthParts) return nullptr;
  return std::make_unique<LstmInParts>(plan, given, parts);
}

}  // namespace ipu::kernels
