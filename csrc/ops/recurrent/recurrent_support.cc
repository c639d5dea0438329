// See recurrent_support.h.
#include "ops/recurrent/recurrent_support.h"

#include <fmt/core.h>

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

Cost layer_cost(const ir::Op& op, double products, double flops_per_element) {
  Cost cost;
  const Shape &rows = op.operand(0)->type().shape, &weight = op.operand(1)->type().shape;
  const double count = static_cast<double>(rows[0] * rows[1]);
  cost.flops = products * 2.0 * count * static_cast<double>(weight[0] * weight[1]) +
               flops_per_element * count * static_cast<double>(rows[2]);
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr) cost.bytes_in += static_cast<double>(op.operand(i)->type().bytes());
  for (int i = 0; i < op.result_count(); ++i)
    cost.bytes_out += static_cast<double>(op.result(i)->type().bytes());
  return cost;
}

}  // namespace ipu::ops
