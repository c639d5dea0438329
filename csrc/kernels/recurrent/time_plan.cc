// See time_plan.h.
#include "kernels/recurrent/time_plan.h"

#include <utility>

#include "kernels/matmul/operand_matrix.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kFewRows = 4, kManyRows = 16;  // of a lane that keep a product at full speed; and easily
constexpr int64_t kMostLanes = 8;
constexpr double kWorthLanes = 100.0;  // microseconds

}  // namespace

// Each lane reads the whole weight in every step: two lanes as soon as both have rows enough to pay for that,
// more for large batches.
int TimePlan::lanes() const {
  if (batch < 2 * kFewRows) return 1;
  const double all = static_cast<double>(steps) * product_microseconds(batch, columns, outputs);
  if (all < kWorthLanes) return 1;
  return static_cast<int>(std::clamp<int64_t>(batch / kManyRows, 2, kMostLanes));
}

std::optional<TimePlan> time_plan(const KernelRequest& request, int64_t gates, int64_t per_row) {
  if (request.operands.size() < 2 || request.results.empty() || request.is_absent(0) || request.is_absent(1))
    return std::nullopt;
  const TensorSpec& rows = request.operands[0];
  const auto weight = weight_of(request.operands[1]);
  if (rows.shape.size() != 3 || !rows.is_contiguous() || !weight || request.operands[1].dtype != rows.dtype ||
      (rows.dtype != DType::kF32 && rows.dtype != DType::kF16))
    return std::nullopt;
  TimePlan plan;
  plan.reverse = boolean_of(request, "reverse", false);
  plan.batch_first = boolean_of(request, "batch_first", false);
  plan.steps = rows.shape[plan.batch_first ? 1 : 0];
  plan.batch = rows.shape[plan.batch_first ? 0 : 1];
  plan.columns = weight->columns;
  plan.outputs = weight->rows;
  plan.hidden = plan.columns / gates;
  plan.dtype = rows.dtype;
  plan.weight = *weight;
  if (plan.hidden * gates != plan.columns || rows.shape[2] != plan.hidden * per_row) return std::nullopt;
  return plan;
}

bool is_given(const KernelRequest& request, size_t operand) {
  return operand < request.operands.size() && !request.is_absent(operand) &&
         !request.operands[operand].shape.empty();
}

bool fits(const TensorSpec& spec, DType dtype, const Shape& shape) {
  return spec.dtype == dtype && spec.shape == shape && spec.is_contiguous();
}

bool fits_or_is_absent(const KernelRequest& request, size_t operand, DType dtype, const Shape& shape) {
  return !is_given(request, operand) || fits(request.operands[operand], dtype, shape);
}

std::optional<MatrixSource> weight_of(const TensorSpec& spec) {
  if (spec.shape.size() != 2) return std::nullopt;
  return matrix_of(spec, !spec.layout.is_blocked());
}

MatrixSource transpose_of(MatrixSource matrix) {
  using Form = MatrixSource::Form;
  std::swap(matrix.rows, matrix.columns);
  switch (matrix.form) {
    case Form::kRows:
      matrix.form = Form::kTransposed;
      break;
    case Form::kTransposed:
      matrix.form = Form::kRows;
      break;
    case Form::kPanels:
      matrix.form = Form::kTransposedPanels;
      break;
    case Form::kTransposedPanels:
      matrix.form = Form::kPanels;
      break;
  }
  return matrix;
}

uint64_t given_operands(const KernelRequest& request) {
  uint64_t given = 0;
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (is_given(request, i)) given |= uint64_t{1} << i;
  return given;
}

Footprint footprint_of_given(const KernelRequest& request) {
  Footprint touched;
  for (size_t i = 0; i < request.operands.size(); ++i)
    touched.operands.push_back(is_given(request, i) ? extent_of_view(request.operands[i]) : Extent{});
  for (const TensorSpec& result : request.results) {
    require_disjoint(result);
    touched.results.push_back(extent_of_view(result));
  }
  return touched;
}

}  // namespace ipu::kernels
