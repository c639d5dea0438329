// See recurrent_support.h.
#include "ops/recurrent/recurrent_support.h"

#include <fmt/core.h>

#include "ops/linear/product_work.h"

namespace ipu::ops {

TimeOrder::TimeOrder(const Shape& shape, const Attributes& attributes)
    : reverse(attributes.boolean("reverse")), batch_first(attributes.boolean("batch_first")) {
  steps = shape[batch_first ? 1 : 0];
  batch = shape[batch_first ? 0 : 1];
}

LayerTypes layer_types(const InferContext& c, int64_t gates, int64_t per_row) {
  require_rank(c, 0, 3, "operand 0");
  require_rank(c, 1, 2, "the weight");
  require_same_dtype(c, 0, 1);
  const Shape &x = c.operand(0).shape, &w = c.operand(1).shape;
  const int64_t hidden = w[0] / gates;
  if (hidden * gates != w[0] || x[2] != hidden * per_row)
    shape_error(fmt::format("{} must end in {} parts of a cell whose weight has {} rows for {} gates",
                            to_string(x), per_row, w[0], gates));
  return {c.operand(0).dtype, TimeOrder(x, c.attributes), hidden, w[1]};
}

void require_type(const InferContext& c, int operand, std::string_view name, const ir::Type& type) {
  if (!c.has(operand)) return;
  const ir::Type& given = c.operand(operand);
  if (given.dtype != type.dtype || given.shape != type.shape)
    shape_error(fmt::format("{} is {} and must be {}", name, ir::to_string(given), ir::to_string(type)));
}

void times_transpose(const double* a, const ReferenceTensor& weight, double* out) {
  const int64_t columns = weight.type.shape[0], depth = weight.type.shape[1];
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = 0.0;
    for (int64_t k = 0; k < depth; ++k) out[c] += a[k] * weight.values[static_cast<size_t>(c * depth + k)];
  }
}

void times(const double* a, const ReferenceTensor& weight, double* out) {
  const int64_t depth = weight.type.shape[0], columns = weight.type.shape[1];
  std::fill_n(out, columns, 0.0);
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t c = 0; c < columns; ++c)
      out[c] += a[k] * weight.values[static_cast<size_t>(k * columns + c)];
}

const double* row_of(const ReferenceCall& call, int operand, size_t row) {
  if (!call.has(operand)) return nullptr;
  const ReferenceTensor& tensor = call.operand(operand);
  return tensor.values.data() + row * static_cast<size_t>(tensor.type.shape.back());
}

double* row_of(ReferenceTensor& result, size_t row) {
  return result.values.data() + row * static_cast<size_t>(result.type.shape.back());
}

ir::Value* slice_of(GradientBuilder& g, ir::Value* x, int64_t dim, int64_t start, int64_t size) {
  Shape starts(x->type().shape.size(), 0), sizes = x->type().shape;
  starts[static_cast<size_t>(dim)] = start;
  sizes[static_cast<size_t>(dim)] = size;
  return g.op("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(sizes.size(), 1)}});
}

ir::Value* recurrent_weight_gradient(GradientBuilder& g, ir::Value* y, ir::Value* h0, ir::Value* d_sums) {
  const Shape& shape = y->type().shape;
  const TimeOrder order(shape, g.attributes());
  const int64_t time = order.batch_first ? 1 : 0, later = order.steps - 1;
  const int64_t first_states = order.reverse ? 1 : 0, first_gradients = order.reverse ? 0 : 1;
  if (h0 == nullptr) {
    if (later < 1) return nullptr;
    return g.op("linear_weight_gradient", {slice_of(g, y, time, first_states, later),
                                           slice_of(g, d_sums, time, first_gradients, later)});
  }
  ir::Value* states =
      g.reshape(h0, order.batch_first ? Shape{order.batch, 1, shape[2]} : Shape{1, order.batch, shape[2]});
  if (later > 0) {
    ir::Value* kept = slice_of(g, y, time, first_states, later);
    states = order.reverse ? g.op("concat", {kept, states}, {{"dim", time}})
                           : g.op("concat", {states, kept}, {{"dim", time}});
  }
  return g.op("linear_weight_gradient", {states, d_sums});
}

std::vector<target::Work> layer_work(const ir::Op& op, const StepFunctions& functions, bool is_gradient,
                                     int projection) {
  const ir::Type& weight = op.operand(1)->type();
  const Shape& rows = op.result()->type().shape;
  const bool batch_first = op.attributes.boolean("batch_first", false);
  const int64_t steps = rows[batch_first ? 1 : 0], batch = rows[batch_first ? 0 : 1];
  std::vector<target::Work> work;
  const auto product = [&](const Shape& matrix) {
    const int64_t to = is_gradient ? matrix[1] : matrix[0], from = is_gradient ? matrix[0] : matrix[1];
    for (target::Work& phase : product_work(op, {.rows = batch, .inputs = from, .outputs = to}))
      work.push_back(std::move(phase));
  };
  const ir::Type gates{weight.dtype, {batch, weight.shape[0]}}, state{weight.dtype, {batch, weight.shape[1]}};
  product(weight.shape);
  const bool has_projection =
      projection >= 0 && projection < op.operand_count() && op.operand(projection) != nullptr;
  if (has_projection) product(op.operand(projection)->type().shape);
  work.push_back(rearrangement_of(gates, weight.shape[0]));
  work.push_back(pass_over(gates, functions.gates, 2));
  work.push_back(pass_over(state, functions.state, 3));
  work.push_back(rearrangement_of(state, weight.shape[1]));
  for (target::Work& phase : work) phase.times = steps;
  return work;
}

}  // namespace ipu::ops
