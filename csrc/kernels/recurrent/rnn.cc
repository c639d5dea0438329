// Kernels "rnn_layer" (x_parts, weight, h0?) -> (y, h_n) and "rnn_layer_gradient" (y, weight, d_y?, d_h_n?) ->
// (d_x_parts, d_h0) {activation: "tanh" or "relu", reverse, batch_first}, f32 or f16 with sums and state in
// f32. Result 0 may lie in operand 0.
#include "kernels/recurrent/cell_loops.h"
#include "kernels/recurrent/time_plan.h"

namespace ipu::kernels {
namespace {

struct RnnPlan : TimePlan {
  uint64_t given = 0;
  bool is_relu = false;
};

template <class T>
class RnnKernel final : public PreparedKernel {
 public:
  explicit RnnKernel(const RnnPlan& plan) : plan_(plan), product_(plan.product(plan.weight)) {
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    sums_ = scratch_.add(plan.lane_rows() * plan.hidden);
    state_ = scratch_.add(plan.lane_rows() * plan.hidden);
    x_ = scratch_.add(plan.hidden);
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const auto activate = plan_.is_relu ? cell_loops().relu : cell_loops().tanh;
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    float *sums = scratch + sums_, *state = scratch + state_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    begin_rows(memory.operand_rows(2, first * hidden), state, rows, hidden);
    for (int64_t step = 0; step < plan_.steps; ++step) {
      if (step == 0 && memory.operand(2) == nullptr)
        begin_rows<float>(nullptr, sums, rows, hidden);
      else
        product_.run(state, call.operands[1], sums, rows, weight, meter);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r) * hidden;
        activate(hidden, read_row(memory.operand(0) + at, scratch + x_, hidden), sums + r * hidden,
                 state + r * hidden);
        store_row(state + r * hidden, memory.result(0) + at, hidden);
      }
      if (meter.stops(2 * rows * hidden + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r)
      store_row(state + r * hidden, memory.result(1) + (first + r) * hidden, hidden);
  }

 private:
  const RnnPlan plan_;
  const StepProduct product_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, sums_ = 0, state_ = 0, x_ = 0;
};

template <class T>
class RnnGradientKernel final : public PreparedKernel {
 public:
  explicit RnnGradientKernel(const RnnPlan& plan)
      : plan_(plan), product_(plan.product(transpose_of(plan.weight))) {
    weight_ = scratch_.add_bytes(product_.scratch_bytes());
    d_sums_ = scratch_.add(plan.lane_rows() * plan.hidden);
    d_state_ = scratch_.add(plan.lane_rows() * plan.hidden);
    row_ = scratch_.add(plan.hidden);
  }
  int lanes() const override { return plan_.lanes(); }
  int64_t scratch_bytes() const override { return scratch_.bytes(); }

  void run(const KernelCall& call, int lane) const override {
    const Memory<T> memory{call, plan_.given};
    const auto back = plan_.is_relu ? cell_loops().relu_gradient : cell_loops().tanh_gradient;
    const int64_t first = plan_.first(lane), rows = plan_.rows(lane), hidden = plan_.hidden;
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    auto* const weight = reinterpret_cast<std::byte*>(scratch + weight_);
    float *d_sums = scratch + d_sums_, *d_state = scratch + d_state_;
    StopMeter meter(call);
    if (rows == 0 || !product_.load(call.operands[1], weight, meter)) return;
    begin_rows(memory.operand_rows(3, first * hidden), d_state, rows, hidden);
    const T* d_y = memory.operand(2);
    for (int64_t step = plan_.steps; step-- > 0;) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = plan_.row(plan_.time(step), first + r) * hidden;
        float* const d_row = d_state + r * hidden;
        if (d_y != nullptr) add_row(d_row, read_row(d_y + at, scratch + row_, hidden), hidden);
        back(hidden, read_row(memory.operand(0) + at, scratch + row_, hidden), d_row, d_sums + r * hidden);
        store_row(d_sums + r * hidden, memory.result(0) + at, hidden);
      }
      product_.run(d_sums, call.operands[1], d_state, rows, weight, meter);
      if (meter.stops(2 * rows * hidden + 1)) return;
    }
    for (int64_t r = 0; r < rows; ++r)
      store_row(d_state + r * hidden, memory.result(1) + (first + r) * hidden, hidden);
  }

 private:
  const RnnPlan plan_;
  const StepProduct product_;
  ScratchPlan scratch_;
  int64_t weight_ = 0, d_sums_ = 0, d_state_ = 0, row_ = 0;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <bool kGradient>
std::optional<RnnPlan> plan_of(const KernelRequest& request) {
  if (request.operands.size() > (kGradient ? 4 : 3) || request.results.size() != 2) return std::nullopt;
  const std::optional<TimePlan> time = time_plan(request, 1, 1);
  const std::string activation = text_of(request, "activation", "tanh");
  if (!time || time->outputs != time->hidden || (activation != "tanh" && activation != "relu"))
    return std::nullopt;
  const RnnPlan plan{*time, given_operands(request), activation == "relu"};
  const Shape state{plan.batch, plan.hidden}, rows = plan.shape(plan.hidden);
  auto given = [&](size_t i, const Shape& shape) { return fits_or_is_absent(request, i, plan.dtype, shape); };
  if (!fits(request.results[0], plan.dtype, rows) || !fits(request.results[1], plan.dtype, state))
    return std::nullopt;
  if (kGradient ? !given(2, rows) || !given(3, state) : !given(2, state)) return std::nullopt;
  return plan;
}

template <template <class> class Kernel, bool kGradient>
std::unique_ptr<PreparedKernel> prepare_rnn(const KernelRequest& request) {
  return kernel_of<Kernel>(plan_of<kGradient>(request));
}

template <bool kGradient>
Footprint footprint_of_rnn(const KernelRequest& request) {
  require_counts(request, 2, kGradient ? 4 : 3, 2);
  require_sound(request);
  require(plan_of<kGradient>(request).has_value(), "has no RNN's shapes, strides, types or attributes");
  return footprint_of_given(request);
}

IPU_REGISTER_KERNEL("rnn_layer", (prepare_rnn<RnnKernel, false>), footprint_of_rnn<false>);
IPU_REGISTER_KERNEL("rnn_layer_gradient", (prepare_rnn<RnnGradientKernel, true>), footprint_of_rnn<true>);

}  // namespace
}  // namespace ipu::kernels
