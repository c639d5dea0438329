// Pieces shared by the ops of recurrent layers: their order of time, type rules, reference values, the
// gradient of the recurrent weight. One op is one layer in one direction; the product of all inputs with the
// input weight stands before it, as a linear op. Not here: cells, and what torch's operators become
// (recurrent_importers.h).
#pragma once

#include <cmath>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {

// [steps, batch, ...] or, with batch_first, [batch, steps, ...]; with reverse, step 0 is the last time.
struct TimeOrder {
  int64_t steps = 0, batch = 0;
  bool reverse = false, batch_first = false;

  TimeOrder(const Shape& shape, const Attributes& attributes);
  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  // Row of what belongs to a step and an item of the batch.
  size_t row(int64_t step, int64_t item) const {
    return static_cast<size_t>(batch_first ? item * steps + time(step) : time(step) * batch + item);
  }
  Shape shape(int64_t last) const {
    return batch_first ? Shape{batch, steps, last} : Shape{steps, batch, last};
  }
};

// Checks x_parts (operand 0) and weight (operand 1) of a layer with so many gates.
struct LayerTypes {
  DType dtype;
  TimeOrder order;
  int64_t hidden, outputs;

  ir::Type rows(int64_t last) const { return {dtype, order.shape(last)}; }
  ir::Type state(int64_t last) const { return {dtype, {order.batch, last}}; }
};
LayerTypes layer_types(const InferContext& c, int64_t gates, int64_t per_row);
// Operand `operand` is of this type, or absent.
void require_type(const InferContext& c, int operand, std::string_view name, const ir::Type& type);

// --- reference values

inline double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
// out[c] = sum over k of a[k] * weight[c, k], for [columns, depth]; and with the transpose.
void times_transpose(const double* a, const ReferenceTensor& weight, double* out);
void times(const double* a, const ReferenceTensor& weight, double* out);
// Row `row` of a tensor; nullptr where it is absent.
const double* row_of(const ReferenceCall& call, int operand, size_t row);
double* row_of(ReferenceTensor& result, size_t row);

// --- gradients and importers

// States before each step: h0 (nullptr: zeros, then the first step is left out of both) and all but the last
// of y, with the steps of `d_sums` that belong to them. The gradient of weight [columns, outputs] is the
// product of the two; nullptr: it is zero.
ir::Value* recurrent_weight_gradient(GradientBuilder& g, ir::Value* y, ir::Value* h0, ir::Value* d_sums);
ir::Value* slice_of(GradientBuilder& g, ir::Value* x, int64_t dim, int64_t start, int64_t size);

// --- work on the tiles

// What a step does besides its product: functions of the gates and of the state, each one pass.
struct StepFunctions {
  std::vector<std::string_view> gates, state;
};
// Of all steps, one after the other: the state times the weight [gates, state] (operand 1) or, backwards, the gradients of the gates times it;
// the same for a projection, if there is one. Between products and passes elements go to other tiles.
std::vector<target::Work> layer_work(const ir::Op& op, const StepFunctions& functions, bool is_gradient,
                                     int projection = -1);

}  // namespace ipu::ops
