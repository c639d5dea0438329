// Kernels "lstm_layer" (x_parts, weight, h0?, c0?, projection?) -> (gates, y, h_n, c_n, cells) and
// "lstm_layer_gradient" (gates, weight, cells, c0?, projection?, d_gates?, d_y?, d_h_n?, d_c_n?, d_cells?) ->
// (d_x_parts, d_h0, d_c0) {reverse, batch_first}, f32 or f16 with sums and state in f32. Result 0 may lie in
// operand 0. All steps of a block of rows run behind one another, with the weight in the caches.
#include "kernels/recurrent/cell_loops.h"
#include "kernels/recurrent/layer_in_parts.h"
#include "kernels/recurrent/time_plan.h"

namespace ipu::kernels {
namespace {

struct LstmPlan : TimePlan {
  std::optional<MatrixSource> projection;  // [hidden, outputs]
  uint64_t given = 0;
};

template <class T>
class LstmKernel final : public PreparedKernel {
 public:
  explicit LstmKernel(const LstmPlan& plan) : plan_(plan), product_(plan.product(plan.weight)) {
    const int64_t rows = plan.lane_rows();
    if (plan.projection) projection_ = plan.product(*plan.projection);
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    projection_weight_ = scratch_.add_bytes(projection_.scratch_bytes());
    sums_ = scratch_.add(rows * plan.columns);
    state_ = scratch_.add(rows * plan.outputs);
    cell_ = scratch_.add(rows * plan.hidden);
    shown_ = plan.projection ? scratch_.add(rows * plan.hidden) : state_;
    x_ = scratch_.add(plan.columns);
    gates_ = scratch_.add(plan.columns);
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const CellLoops& loops = cell_loops();
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden,
                  columns = plan_.columns, outputs = plan_.outputs;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    auto* const projection_weight = reinterpret_cast<std::byte*>(scratch + projection_weight_);
    float *sums = scratch + sums_, *state = scratch + state_, *cell = scratch + cell_,
          *shown = scratch + shown_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    if (plan_.projection && !projection_.load(call.operands[4], projection_weight, meter)) return;
    begin_rows(memory.operand_rows(2, first * outputs), state, rows, outputs);
    begin_rows(memory.operand_rows(3, first * hidden), cell, rows, hidden);
    for (int64_t step = 0; step < plan_.steps; ++step) {
      if (step == 0 && memory.operand(2) == nullptr)
        begin_rows<float>(nullptr, sums, rows, columns);
      else
        product_.run(state, call.operands[1], sums, rows, weight, meter);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r);
        T* const gates = memory.result(0) + at * columns;
        float* const made = made_at(gates, scratch + gates_);
        loops.lstm(hidden, {.x = read_row(memory.operand(0) + at * columns, scratch + x_, columns),
                            .sums = sums + r * columns,
                            .cell = cell + r * hidden,
                            .gates = made,
                            .output = shown + r * hidden,
                            .stride = hidden});
        store_made(made, gates, columns);
        store_row(cell + r * hidden, memory.result(4) + at * hidden, hidden);
      }
      if (plan_.projection) projection_.run(shown, call.operands[4], state, rows, projection_weight, meter);
      for (int64_t r = 0; r < rows; ++r)
        store_row(state + r * outputs, memory.result(1) + plan_.row(plan_.time(step), first + r) * outputs,
                  outputs);
      if (meter.stops(2 * rows * columns + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      store_row(state + r * outputs, memory.result(2) + (first + r) * outputs, outputs);
      store_row(cell + r * hidden, memory.result(3) + (first + r) * hidden, hidden);
    }
  }

 private:
  const LstmPlan plan_;
  const StepProduct product_;
  StepProduct projection_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, projection_weight_ = 0, sums_ = 0, state_ = 0, cell_ = 0, shown_ = 0, x_ = 0,
          gates_ = 0;
};

template <class T>
class LstmGradientKernel final : public PreparedKernel {
 public:
  explicit LstmGradientKernel(const LstmPlan& plan)
      : plan_(plan), product_(plan.product(transpose_of(plan.weight))) {
    const int64_t rows = plan.lane_rows();
    if (plan.projection) projection_ = plan.product(transpose_of(*plan.projection));
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    projection_weight_ = scratch_.add_bytes(projection_.scratch_bytes());
    d_sums_ = scratch_.add(rows * plan.columns);
    d_state_ = scratch_.add(rows * plan.outputs);
    d_cell_ = scratch_.add(rows * plan.hidden);
    d_shown_ = plan.projection ? scratch_.add(rows * plan.hidden) : d_state_;
    zeros_ = scratch_.add(plan.columns);
    gates_ = scratch_.add(plan.columns);
    d_gates_ = scratch_.add(plan.columns);
    cell_now_ = scratch_.add(plan.hidden);
    before_ = scratch_.add(plan.hidden);
    upstream_ = scratch_.add(std::max(plan.hidden, plan.outputs));
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const CellLoops& loops = cell_loops();
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden,
                  columns = plan_.columns, outputs = plan_.outputs;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    auto* const projection_weight = reinterpret_cast<std::byte*>(scratch + projection_weight_);
    float *d_sums = scratch + d_sums_, *d_state = scratch + d_state_, *d_cell = scratch + d_cell_,
          *d_shown = scratch + d_shown_, *zeros = scratch + zeros_, *upstream = scratch + upstream_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    if (plan_.projection && !projection_.load(call.operands[4], projection_weight, meter)) return;
    begin_rows(memory.operand_rows(7, first * outputs), d_state, rows, outputs);
    begin_rows(memory.operand_rows(8, first * hidden), d_cell, rows, hidden);
    begin_rows<float>(nullptr, zeros, 1, columns);
    const T *d_y = memory.operand(6), *d_cells = memory.operand(9), *d_gates = memory.operand(5);
    for (int64_t step = plan_.steps; step-- > 0;) {
      for (int64_t r = 0; d_y != nullptr && r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r);
        add_row(d_state + r * outputs, read_row(d_y + at * outputs, upstream, outputs), outputs);
      }
      if (plan_.projection)
        projection_.run(d_state, call.operands[4], d_shown, rows, projection_weight, meter);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r);
        if (d_cells != nullptr)
          add_row(d_cell + r * hidden, read_row(d_cells + at * hidden, upstream, hidden), hidden);
        const float* before = zeros;
        if (step > 0)
          before = read_row(memory.operand(2) + plan_.row(plan_.time(step - 1), first + r) * hidden,
                            scratch + before_, hidden);
        else if (memory.operand(3) != nullptr)
          before = read_row(memory.operand(3) + (first + r) * hidden, scratch + before_, hidden);
        loops.lstm_gradient(
            hidden,
            {.gates = read_row(memory.operand(0) + at * columns, scratch + gates_, columns),
             .d_gates =
                 d_gates == nullptr ? zeros : read_row(d_gates + at * columns, scratch + d_gates_, columns),
             .cell = read_row(memory.operand(2) + at * hidden, scratch + cell_now_, hidden),
             .cell_before = before,
             .d_output = d_shown + r * hidden,
             .d_cell = d_cell + r * hidden,
             .d_x = d_sums + r * columns});
        store_row(d_sums + r * columns, memory.result(0) + at * columns, columns);
      }
      product_.run(d_sums, call.operands[1], d_state, rows, weight, meter);
      if (meter.stops(3 * rows * columns + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      store_row(d_state + r * outputs, memory.result(1) + (first + r) * outputs, outputs);
      store_row(d_cell + r * hidden, memory.result(2) + (first + r) * hidden, hidden);
    }
  }

 private:
  const LstmPlan plan_;
  const StepProduct product_;
  StepProduct projection_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, projection_weight_ = 0, d_sums_ = 0, d_state_ = 0, d_cell_ = 0, d_shown_ = 0,
          zeros_ = 0, gates_ = 0, d_gates_ = 0, cell_now_ = 0, before_ = 0, upstream_ = 0;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <bool kGradient>
std::optional<LstmPlan> plan_of(const KernelRequest& request) {
  if (request.operands.size() > (kGradient ? 10 : 5) || request.results.size() != (kGradient ? 3 : 5))
    return std::nullopt;
  const std::optional<TimePlan> time = time_plan(request, 4, 4);
  if (!time) return std::nullopt;
  LstmPlan plan{*time, std::nullopt, given_operands(request)};
  const DType dtype = plan.dtype;
  if (is_given(request, 4)) {
    const TensorSpec& spec = request.operands[4];
    if (!fits(spec, dtype, {plan.outputs, plan.hidden})) return std::nullopt;
    plan.projection = weight_of(spec);
  } else if (plan.outputs != plan.hidden) {
    return std::nullopt;
  }
  const Shape state{plan.batch, plan.outputs}, cell{plan.batch, plan.hidden};
  const Shape gates = plan.shape(plan.columns), outputs = plan.shape(plan.outputs),
              cells = plan.shape(plan.hidden);
  auto given = [&](size_t i, const Shape& shape) { return fits_or_is_absent(request, i, dtype, shape); };
  auto result = [&](size_t i, const Shape& shape) { return fits(request.results[i], dtype, shape); };
  if constexpr (kGradient) {
    if (!is_given(request, 2) || !given(2, cells) || !given(3, cell) || !given(5, gates) ||
        !given(6, outputs) || !given(7, state) || !given(8, cell) || !given(9, cells) || !result(0, gates) ||
        !result(1, state) || !result(2, cell))
      return std::nullopt;
  } else if (!given(2, state) || !given(3, cell) || !result(0, gates) || !result(1, outputs) ||
             !result(2, state) || !result(3, cell) || !result(4, cells)) {
    return std::nullopt;
  }
  return plan;
}

template <template <class> class Kernel, bool kGradient>
std::unique_ptr<PreparedKernel> prepare_lstm(const KernelRequest& request) {
  const std::optional<LstmPlan> plan = plan_of<kGradient>(request);
  if constexpr (!kGradient)
    if (plan && !plan->projection)
      if (std::unique_ptr<PreparedKernel> in_parts = lstm_in_parts(*plan, plan->given)) return in_parts;
  return kernel_of<Kernel>(plan);
}

template <bool kGradient>
Footprint footprint_of_lstm(const KernelRequest& request) {
  require_counts(request, kGradient ? 3 : 2, kGradient ? 10 : 5, kGradient ? 3 : 5);
  require_sound(request);
  require(plan_of<kGradient>(request).has_value(), "has no LSTM's shapes, strides, types or attributes");
  return footprint_of_given(request);
}

IPU_REGISTER_KERNEL("lstm_layer", (prepare_lstm<LstmKernel, false>), footprint_of_lstm<false>);
IPU_REGISTER_KERNEL("lstm_layer_gradient", (prepare_lstm<LstmGradientKernel, true>), footprint_of_lstm<true>);

}  // namespace
}  // namespace ipu::kernels
