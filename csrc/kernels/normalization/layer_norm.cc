// Kernels "layer_norm" {axis, eps} and "layer_norm_gradient" {axis, wants}: one row at a time, so that only its
// first reading comes from memory. Lanes cut rows; those of the gradients of weight and bias, sums over all
// rows, cut columns, and add pieces of kNormRows rows in f32 and the pieces in f64.
#include <algorithm>
#include <initializer_list>
#include <optional>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/normalization/row_norm.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kColumns = static_cast<int64_t>(kNormColumns), kPiece = static_cast<int64_t>(kNormRows);

// x as a matrix: a row is what is normalized.
struct Rows {
  int64_t rows = 0, columns = 0;
  DType dtype = DType::kF32;

  int64_t bytes() const { return size_in_bytes(dtype); }
};

bool is_contiguous(const TensorSpec& spec) { return spec.layout.is_plain() && spec.is_contiguous(); }

// nullopt: x is nothing the kernels take. Its shape must be bounded (require_sound).
std::optional<Rows> rows_of(const KernelRequest& request) {
  if (request.operands.empty() || request.is_absent(0)) return std::nullopt;
  const TensorSpec& x = request.operands[0];
  if ((x.dtype != DType::kF32 && x.dtype != DType::kF16) || !is_contiguous(x)) return std::nullopt;
  const int64_t axis = integer_of(request, "axis");
  if (axis < 0 || axis >= static_cast<int64_t>(x.shape.size()) || element_count(x.shape) == 0)
    return std::nullopt;
  Rows rows{1, 1, x.dtype};
  for (size_t d = 0; d < x.shape.size(); ++d)
    (static_cast<int64_t>(d) < axis ? rows.rows : rows.columns) *= x.shape[d];
  return rows;
}

bool has(const KernelRequest& request, size_t i) {
  return i < request.operands.size() && !request.is_absent(i);
}
bool is_vector(const TensorSpec& spec, DType dtype, int64_t elements) {
  return spec.dtype == dtype && is_contiguous(spec) && element_count(spec.shape) == elements;
}
// Absent, or one element for each column of a row.
bool is_parameter(const KernelRequest& request, size_t i, const Rows& rows) {
  return !has(request, i) || is_vector(request.operands[i], rows.dtype, rows.columns);
}

// Lanes for rows that are read from memory once and from the nearest cache twice.
int lanes_for_rows(const Rows& rows) {
  return static_cast<int>(std::min<int64_t>(lanes_for_elements(rows.rows * rows.columns), rows.rows));
}

template <class T>
class LayerNorm final : public PreparedKernel {
 public:
  LayerNorm(const Rows& rows, float eps, bool has_weight, bool has_bias)
      : rows_(rows),
        eps_(eps),
        has_weight_(has_weight),
        has_bias_(has_bias),
        lanes_(lanes_for_rows(rows)),
        norm_(row_norm<T>()) {}

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return 0; }

  void run(const KernelCall& call, int lane) const override {
    const auto operand = [&](int i) { return reinterpret_cast<const T*>(call.operands[i]); };
    const T *weight = has_weight_ ? operand(1) : nullptr, *bias = has_bias_ ? operand(2) : nullptr;
    auto* means = reinterpret_cast<float*>(call.results[1]);
    auto* rstds = reinterpret_cast<float*>(call.results[2]);
    StopMeter meter(call);
    for (int64_t r = rows_.rows * lane / lanes_; r < rows_.rows * (lane + 1) / lanes_; ++r) {
      if (meter.stops(4 * rows_.columns)) return;
      const T* x = operand(0) + r * rows_.columns;
      const auto count = static_cast<size_t>(rows_.columns);
      const RowStatistics s = norm_.statistics(x, count, eps_);
      means[r] = s.mean;
      rstds[r] = s.rstd;
      norm_.normalize(x, count, s, weight, bias, reinterpret_cast<T*>(call.results[0]) + r * rows_.columns);
    }
  }

 private:
  Rows rows_;
  float eps_;
  bool has_weight_, has_bias_;
  int lanes_;
  const RowNorm<T>& norm_;
};

// What views touch, but nothing of operands that are absent or that the kernel does not read.
Footprint footprint_of_read(const KernelRequest& request, std::initializer_list<size_t> unread) {
  Footprint footprint = footprint_of_views(request);
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (!has(request, i) || std::find(unread.begin(), unread.end(), i) != unread.end())
      footprint.operands[i] = {};
  return footprint;
}

// x, weight and bias (perhaps absent) -> y, mean, rstd.
std::optional<Rows> plan_of_norm(const KernelRequest& request) {
  const std::optional<Rows> rows = rows_of(request);
  if (!rows || request.operands.size() > 3 || request.results.size() != 3) return std::nullopt;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (y.shape != x.shape || y.dtype != x.dtype || !is_contiguous(y)) return std::nullopt;
  for (size_t i : {1, 2})
    if (!is_parameter(request, i, *rows) || !is_vector(request.results[i], DType::kF32, rows->rows))
      return std::nullopt;
  return rows;
}

std::unique_ptr<PreparedKernel> prepare_layer_norm(const KernelRequest& request) {
  const std::optional<Rows> rows = plan_of_norm(request);
  if (!rows) return nullptr;
  const auto eps = static_cast<float>(real_of(request, "eps", 1e-5));
  if (rows->dtype == DType::kF16)
    return std::make_unique<LayerNorm<uint16_t>>(*rows, eps, has(request, 1), has(request, 2));
  return std::make_unique<LayerNorm<float>>(*rows, eps, has(request, 1), has(request, 2));
}

Footprint footprint_of_layer_norm(const KernelRequest& request) {
  require_counts(request, 1, 3, 3);
  require_sound(request);
  require(plan_of_norm(request).has_value(), "has no layer norm's shapes, strides, types or axis");
  real_of(request, "eps", 1e-5);  // refused here when it is of another kind
  return footprint_of_read(request, {});
}

// x, weight, bias, mean, rstd, dy, and the gradients of mean and rstd, which must be absent. Weight may be.
enum GradientOperand : size_t { kX, kWeight, kBias, kMean, kRstd, kDy, kDMean, kDRstd };

// Results that hold the gradients of x, weight and bias; -1: not wanted.
struct GradientResults {
  int x = -1, weight = -1, bias = -1;
  bool of_parameters() const { return weight >= 0 || bias >= 0; }
};

template <class T>
class LayerNormGradient final : public PreparedKernel {
 public:
  LayerNormGradient(const Rows& rows, const GradientResults& results, bool has_weight)
      : rows_(rows),
        results_(results),
        has_weight_(has_weight),
        row_lanes_(results.x >= 0 ? lanes_for_rows(rows) : 0),
        units_(results.of_parameters() ? (rows.columns + kColumns - 1) / kColumns : 0),
        column_lanes_(static_cast<int>(std::min<int64_t>(
            lanes_for_elements(results.of_parameters() ? rows.rows * rows.columns : 0), units_))),
        narrow_(block_ops().narrow[static_cast<size_t>(rows.dtype)]),
        norm_(row_norm<T>()) {}

  int lanes() const override { return std::max(1, row_lanes_ + column_lanes_); }
  int64_t scratch_bytes() const override { return 0; }

  void run(const KernelCall& call, int lane) const override {
    if (lane < row_lanes_)
      run_rows(call, rows_.rows * lane / row_lanes_, rows_.rows * (lane + 1) / row_lanes_);
    else if (column_lanes_ > 0)
      run_columns(call, units_ * (lane - row_lanes_) / column_lanes_,
                  units_ * (lane - row_lanes_ + 1) / column_lanes_);
  }

 private:
  void run_rows(const KernelCall& call, int64_t first, int64_t last) const {
    const auto operand = [&](GradientOperand i) { return reinterpret_cast<const T*>(call.operands[i]); };
    const T* weight = has_weight_ ? operand(kWeight) : nullptr;
    const auto* means = reinterpret_cast<const float*>(call.operands[kMean]);
    const auto* rstds = reinterpret_cast<const float*>(call.operands[kRstd]);
    auto* to = reinterpret_cast<T*>(call.results[results_.x]);
    StopMeter meter(call);
    for (int64_t r = first; r < last; ++r) {
      if (meter.stops(4 * rows_.columns)) return;
      const int64_t at = r * rows_.columns;
      norm_.gradient(operand(kX) + at, operand(kDy) + at, static_cast<size_t>(rows_.columns),
                     {means[r], rstds[r]}, weight, to + at);
    }
  }

  void run_columns(const KernelCall& call, int64_t first, int64_t last) const {
    const auto* means = reinterpret_cast<const float*>(call.operands[kMean]);
    const auto* rstds = reinterpret_cast<const float*>(call.operands[kRstd]);
    StopMeter meter(call);
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t column = unit * kColumns, columns = std::min(kColumns, rows_.columns - column);
      double weight[kNormColumns] = {}, bias[kNormColumns] = {};
      for (int64_t row = 0; row < rows_.rows; row += kPiece) {
        if (meter.stops(4 * kPiece * kColumns)) return;
        const int64_t rows = std::min(kPiece, rows_.rows - row);
        const int64_t at = row * rows_.columns + column;
        float some_weight[kNormColumns], some_bias[kNormColumns];
        norm_.add_rows(reinterpret_cast<const T*>(call.operands[kX]) + at,
                       reinterpret_cast<const T*>(call.operands[kDy]) + at, static_cast<size_t>(rows),
                       static_cast<size_t>(columns), static_cast<size_t>(rows_.columns), means + row,
                       rstds + row, some_weight, some_bias);
        for (int64_t c = 0; c < columns; ++c) {
          weight[c] += static_cast<double>(some_weight[c]);
          bias[c] += static_cast<double>(some_bias[c]);
        }
      }
      store(call, results_.weight, weight, column, columns);
      store(call, results_.bias, bias, column, columns);
    }
  }

  void store(const KernelCall& call, int result, const double* values, int64_t column,
             int64_t columns) const {
    if (result < 0) return;
    float rounded[kNormColumns];
    for (int64_t c = 0; c < columns; ++c) rounded[c] = static_cast<float>(values[c]);
    narrow_({.count = static_cast<size_t>(columns),
             .result = call.results[result] + column * rows_.bytes(),
             .a = rounded});
  }

  Rows rows_;
  GradientResults results_;
  bool has_weight_;
  int row_lanes_;
  int64_t units_;  // of kNormColumns columns
  int column_lanes_;
  BlockFunction narrow_;
  const RowNorm<T>& norm_;
};

struct GradientPlan {
  Rows rows;
  GradientResults results;
};

std::optional<GradientPlan> plan_of_gradient(const KernelRequest& request) {
  const std::optional<Rows> rows = rows_of(request);
  const std::vector<int64_t>& wants = integers_of(request, "wants");
  if (!rows || request.operands.size() <= kDy || request.results.size() != wants.size()) return std::nullopt;
  for (size_t i : {kMean, kRstd})
    if (!has(request, i) || !is_vector(request.operands[i], DType::kF32, rows->rows)) return std::nullopt;
  for (size_t i : {kWeight, kBias})
    if (!is_parameter(request, i, *rows)) return std::nullopt;
  if (has(request, kDMean) || has(request, kDRstd) || !has(request, kDy) ||
      !is_vector(request.operands[kDy], rows->dtype, rows->rows * rows->columns))
    return std::nullopt;
  GradientPlan plan{*rows, {}};
  int* const places[] = {&plan.results.x, &plan.results.weight, &plan.results.bias};
  for (size_t k = 0; k < wants.size(); ++k) {
    if (wants[k] < 0 || wants[k] > 2 || *places[wants[k]] >= 0) return std::nullopt;
    *places[wants[k]] = static_cast<int>(k);
    const int64_t elements = wants[k] == 0 ? rows->rows * rows->columns : rows->columns;
    if (!is_vector(request.results[k], rows->dtype, elements)) return std::nullopt;
  }
  return plan;
}

std::unique_ptr<PreparedKernel> prepare_layer_norm_gradient(const KernelRequest& request) {
  const std::optional<GradientPlan> plan = plan_of_gradient(request);
  if (!plan) return nullptr;
  if (plan->rows.dtype == DType::kF16)
    return std::make_unique<LayerNormGradient<uint16_t>>(plan->rows, plan->results, has(request, kWeight));
  return std::make_unique<LayerNormGradient<float>>(plan->rows, plan->results, has(request, kWeight));
}

Footprint footprint_of_layer_norm_gradient(const KernelRequest& request) {
  require_counts(request, kDy + 1, kDRstd + 1, request.results.size());
  require_sound(request);
  require(plan_of_gradient(request).has_value(),
          "has no gradient of layer norm's shapes, strides, types, axis or wants");
  return footprint_of_read(request, {kBias});
}

IPU_REGISTER_KERNEL("layer_norm", prepare_layer_norm, footprint_of_layer_norm);
IPU_REGISTER_KERNEL("layer_norm_gradient", prepare_layer_norm_gradient, footprint_of_layer_norm_gradient);

}  // namespace
}  // namespace ipu::kernels
