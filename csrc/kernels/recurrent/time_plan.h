// What kernels of recurrent layers have in common: the shapes of a request, where a row of a time step lies,
// how rows are cut into lanes, rows of f16 as f32. A lane is a block of rows of the batch that goes through
// all steps on its own. Not here: the cells (lstm.cc, gru.cc, rnn.cc), products (step_product.h).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "kernels/footprint.h"
#include "kernels/recurrent/step_product.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {

struct TimePlan {
  int64_t steps = 0, batch = 0;
  int64_t hidden = 0;   // elements of a gate
  int64_t columns = 0;  // elements of all gates
  int64_t outputs = 0;  // elements of a result of a step
  bool reverse = false, batch_first = false;
  DType dtype = DType::kF32;
  MatrixSource weight;  // [outputs, columns]

  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  // Row of a [steps, batch, ...] or [batch, steps, ...] tensor.
  int64_t row(int64_t time, int64_t item) const {
    return batch_first ? item * steps + time : time * batch + item;
  }
  Shape shape(int64_t last) const {
    return batch_first ? Shape{batch, steps, last} : Shape{steps, batch, last};
  }

  int lanes() const;
  int64_t lane_rows() const { return (batch + lanes() - 1) / lanes(); }
  int64_t first(int lane) const { return std::min(batch, lane * lane_rows()); }
  int64_t rows(int lane) const { return std::min(batch, (lane + 1) * lane_rows()) - first(lane); }
  int64_t last_rows() const { return rows(lanes() - 1); }
  StepProduct product(const MatrixSource& b) const {
    return StepProduct(b, dtype, lane_rows(), last_rows(), steps);
  }
};

// Makes the plan of a request whose operand 0 is [steps, batch, gates * hidden] or [batch, steps, ...] and whose
// operand 1 is the weight [gates * hidden, outputs], plain or panels of its transpose. `per_row`: columns of operand
// 0 in elements of a gate. Returns nullopt if shapes, types or attributes do not fit.
std::optional<TimePlan> time_plan(const KernelRequest& request, int64_t gates, int64_t per_row);

// An operand that is there. Absent ones are left out, marked, or have a spec without a shape.
bool is_given(const KernelRequest& request, size_t operand);
bool fits(const TensorSpec& spec, DType dtype, const Shape& shape);  // dense and of this type
bool fits_or_is_absent(const KernelRequest& request, size_t operand, DType dtype, const Shape& shape);
// The stored weight [N, K] as the matrix [K, N]; and its transpose.
std::optional<MatrixSource> weight_of(const TensorSpec& spec);
MatrixSource transpose_of(MatrixSource matrix);

// Every operand and result that is there by its own strides.
Footprint footprint_of_given(const KernelRequest& request);

// Floats of scratch, one use behind the other.
class ScratchPlan {
 public:
  int64_t add(int64_t floats) {
    const int64_t at = floats_;
    floats_ += (floats + 15) / 16 * 16;
    return at;
  }
  int64_t add_bytes(int64_t bytes) { return add((bytes + 3) / 4); }
  int64_t bytes() const { return floats_ * static_cast<int64_t>(sizeof(float)); }

 private:
  int64_t floats_ = 0;
};

// A row of memory as f32: itself, or widened into `space`.
inline const float* read_row(const float* from, float*, int64_t) { return from; }
inline const float* read_row(const Half* from, float* space, int64_t count) {
  widen_rows(from, count, space, count, 1, count);
  return space;
}
// Where to make a row of memory, and its way there.
inline float* made_at(float* to, float*) { return to; }
inline float* made_at(Half*, float* space) { return space; }
inline void store_made(const float*, float*, int64_t) {}
inline void store_made(const float* made, Half* to, int64_t count) {
  narrow_rows(made, count, to, count, 1, count);
}
inline void store_row(const float* from, float* to, int64_t count) { std::copy_n(from, count, to); }
inline void store_row(const float* from, Half* to, int64_t count) {
  narrow_rows(from, count, to, count, 1, count);
}

// to[rows, count] = the same rows of `from`, or zeros where that is absent.
template <class T>
void begin_rows(const T* from, float* to, int64_t rows, int64_t count) {
  if (from == nullptr)
    std::fill_n(to, rows * count, 0.0f);
  else if constexpr (sizeof(T) == sizeof(float))
    store_row(from, to, rows * count);
  else
    widen_rows(from, count, to, count, rows, count);
}
inline void add_row(float* to, const float* row, int64_t count) { add_tile(to, count, row, count, 1, count); }

// Operands and results of a call as elements of T; nullptr where an operand is absent.
template <class T>
struct Memory {
  const KernelCall& call;
  uint64_t given;

  const T* operand(size_t i) const {
    return (given >> i & 1) != 0 ? reinterpret_cast<const T*>(call.operands[i]) : nullptr;
  }
  const T* operand_rows(size_t i, int64_t first) const {
    const T* at = operand(i);
    return at == nullptr ? nullptr : at + first;
  }
  T* result(size_t i) const { return reinterpret_cast<T*>(call.results[i]); }
};
uint64_t given_operands(const KernelRequest& request);  // as bits

// The kernel of a plan, for its type of elements; nullptr where there is no plan.
template <template <class> class Kernel, class Plan>
std::unique_ptr<PreparedKernel> kernel_of(const std::optional<Plan>& plan) {
  if (!plan) return nullptr;
  if (plan->dtype == DType::kF16) return std::make_unique<Kernel<Half>>(*plan);
  return std::make_unique<Kernel<float>>(*plan);
}

}  // namespace ipu::kernels
