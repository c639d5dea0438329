// Kernels "gru_layer" (x_parts, weight, h0?, bias?) -> (gates, y, h_n, inner) and "gru_layer_gradient" (gates,
// weight, inner, y, h0?, d_gates?, d_y?, d_h_n?, d_inner?) -> (d_x_parts, d_sums, d_h0) {reverse,
// batch_first}, f32 or f16 with sums and state in f32. Result 0 may lie in operand 0.
#include "kernels/recurrent/cell_loops.h"
#include "kernels/recurrent/layer_in_parts.h"
#include "kernels/recurrent/time_plan.h"

namespace ipu::kernels {
namespace {

struct GruPlan : TimePlan {
  uint64_t given = 0;
};

template <class T>
class GruKernel final : public PreparedKernel {
 public:
  explicit GruKernel(const GruPlan& plan) : plan_(plan), product_(plan.product(plan.weight)) {
    const int64_t rows = plan.lane_rows();
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    sums_ = scratch_.add(rows * plan.columns);
    state_ = scratch_.add(rows * plan.hidden);
    bias_ = scratch_.add(plan.columns);
    x_ = scratch_.add(plan.columns);
    gates_ = scratch_.add(plan.columns);
    inner_ = scratch_.add(plan.hidden);
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const CellLoops& loops = cell_loops();
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden,
                  columns = plan_.columns;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    float *sums = scratch + sums_, *state = scratch + state_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    begin_rows(memory.operand_rows(2, first * hidden), state, rows, hidden);
    begin_rows(memory.operand(3), scratch + bias_, 1, columns);
    for (int64_t step = 0; step < plan_.steps; ++step) {
      if (step == 0 && memory.operand(2) == nullptr)
        begin_rows<float>(nullptr, sums, rows, columns);
      else
        product_.run(state, call.operands[1], sums, rows, weight, meter);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r);
        T *const gates = memory.result(0) + at * columns, *const inner = memory.result(3) + at * hidden;
        float *made = made_at(gates, scratch + gates_), *made_inner = made_at(inner, scratch + inner_);
        loops.gru(hidden, {.x = read_row(memory.operand(0) + at * columns, scratch + x_, columns),
                           .sums = sums + r * columns,
                           .bias = scratch + bias_,
                           .state = state + r * hidden,
                           .gates = made,
                           .inner = made_inner,
                           .stride = hidden});
        store_made(made, gates, columns);
        store_made(made_inner, inner, hidden);
        store_row(state + r * hidden, memory.result(1) + at * hidden, hidden);
      }
      if (meter.stops(2 * rows * columns + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r)
      store_row(state + r * hidden, memory.result(2) + (first + r) * hidden, hidden);
  }

 private:
  const GruPlan plan_;
  const StepProduct product_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, sums_ = 0, state_ = 0, bias_ = 0, x_ = 0, gates_ = 0, inner_ = 0;
};

template <class T>
class GruGradientKernel final : public PreparedKernel {
 public:
  explicit GruGradientKernel(const GruPlan& plan)
      : plan_(plan), product_(plan.product(transpose_of(plan.weight))) {
    const int64_t rows = plan.lane_rows();
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    d_sums_ = scratch_.add(rows * plan.columns);
    d_state_ = scratch_.add(rows * plan.hidden);
    through_ = scratch_.add(rows * plan.hidden);
    zeros_ = scratch_.add(plan.columns);
    gates_ = scratch_.add(plan.columns);
    d_gates_ = scratch_.add(plan.columns);
    d_x_ = scratch_.add(plan.columns);
    inner_ = scratch_.add(plan.hidden);
    d_inner_ = scratch_.add(plan.hidden);
    before_ = scratch_.add(plan.hidden);
    upstream_ = scratch_.add(plan.hidden);
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const CellLoops& loops = cell_loops();
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden,
                  columns = plan_.columns;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    float *d_sums = scratch + d_sums_, *d_state = scratch + d_state_, *through = scratch + through_,
          *zeros = scratch + zeros_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    begin_rows(memory.operand_rows(7, first * hidden), d_state, rows, hidden);
    begin_rows<float>(nullptr, zeros, 1, columns);
    const T *d_gates = memory.operand(5), *d_y = memory.operand(6), *d_inner = memory.operand(8);
    for (int64_t step = plan_.steps; step-- > 0;) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r);
        float* const d_row = d_state + r * hidden;
        if (d_y != nullptr) add_row(d_row, read_row(d_y + at * hidden, scratch + upstream_, hidden), hidden);
        const float* before = zeros;
        if (step > 0)
          before = read_row(memory.operand(3) + plan_.row(plan_.time(step - 1), first + r) * hidden,
                            scratch + before_, hidden);
        else if (memory.operand(4) != nullptr)
          before = read_row(memory.operand(4) + (first + r) * hidden, scratch + before_, hidden);
        T* const d_x = memory.result(0) + at * columns;
        float* const made = made_at(d_x, scratch + d_x_);
        loops.gru_gradient(
            hidden,
            {.gates = read_row(memory.operand(0) + at * columns, scratch + gates_, columns),
             .d_gates =
                 d_gates == nullptr ? zeros : read_row(d_gates + at * columns, scratch + d_gates_, columns),
             .inner = read_row(memory.operand(2) + at * hidden, scratch + inner_, hidden),
             .d_inner =
                 d_inner == nullptr ? zeros : read_row(d_inner + at * hidden, scratch + d_inner_, hidden),
             .state_before = before,
             .d_state = d_row,
             .d_x = made,
             .d_sums = d_sums + r * columns});
        store_made(made, d_x, columns);
        store_row(d_sums + r * columns, memory.result(1) + at * columns, columns);
      }
      product_.run(d_sums, call.operands[1], through, rows, weight, meter);
      add_tile(d_state, hidden, through, hidden, rows, hidden);
      if (meter.stops(3 * rows * columns + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r)
      store_row(d_state + r * hidden, memory.result(2) + (first + r) * hidden, hidden);
  }

 private:
  const GruPlan plan_;
  const StepProduct product_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, d_sums_ = 0, d_state_ = 0, through_ = 0, zeros_ = 0, gates_ = 0, d_gates_ = 0,
          d_x_ = 0, inner_ = 0, d_inner_ = 0, before_ = 0, upstream_ = 0;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <bool kGradient>
std::optional<GruPlan> plan_of(const KernelRequest& request) {
  if (request.operands.size() > (kGradient ? 9 : 4) || request.results.size() != (kGradient ? 3 : 4))
    return std::nullopt;
  const std::optional<TimePlan> time = time_plan(request, 3, 3);
  if (!time || time->outputs != time->hidden) return std::nullopt;
  const GruPlan plan{*time, given_operands(request)};
  const Shape state{plan.batch, plan.hidden}, gates = plan.shape(plan.columns),
                                              rows = plan.shape(plan.hidden);
  auto given = [&](size_t i, const Shape& shape) { return fits_or_is_absent(request, i, plan.dtype, shape); };
  auto result = [&](size_t i, const Shape& shape) { return fits(request.results[i], plan.dtype, shape); };
  if constexpr (kGradient) {
    if (!is_given(request, 2) || !is_given(request, 3) || !given(2, rows) || !given(3, rows) ||
        !given(4, state) || !given(5, gates) || !given(6, rows) || !given(7, state) || !given(8, rows) ||
        !result(0, gates) || !result(1, gates) || !result(2, state))
      return std::nullopt;
  } else if (!given(2, state) || !given(3, {plan.columns}) || !result(0, gates) || !result(1, rows) ||
             !result(2, state) || !result(3, rows)) {
    return std::nullopt;
  }
  return plan;
}

template <template <class> class Kernel, bool kGradient>
std::unique_ptr<PreparedKernel> prepare_gru(const KernelRequest& request) {
  const std::optional<GruPlan> plan = plan_of<kGradient>(request);
  if constexpr (!kGradient)
    if (plan)
      if (std::unique_ptr<PreparedKernel> in_parts = gru_in_parts(*plan, plan->given)) return in_parts;
  return kernel_of<Kernel>(plan);
}

template <bool kGradient>
Footprint footprint_of_gru(const KernelRequest& request) {
  require_counts(request, kGradient ? 4 : 2, kGradient ? 9 : 4, kGradient ? 3 : 4);
  require_sound(request);
  require(plan_of<kGradient>(request).has_value(), "has no GRU's shapes, strides, types or attributes");
  return footprint_of_given(request);
}

IPU_REGISTER_KERNEL("gru_layer", (prepare_gru<GruKernel, false>), footprint_of_gru<false>);
IPU_REGISTER_KERNEL("gru_layer_gradient", (prepare_gru<GruGradientKernel, true>), footprint_of_gru<true>);

}  // namespace
}  // namespace ipu::kernels
