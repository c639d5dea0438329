// Importers of ONNX's normalisations.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/node_support.h"
#include "ops/normalization/norm_support.h"

namespace ipu::ops {
namespace {

ir::Value* scalar_like(NodeImportCall& call, ir::Value* x, double value) {
  return call.builder().scalar(x->type().dtype, value);
}

// Operand i in another shape and the type of the computation.
ir::Value* factor(NodeImportCall& call, int i, const Shape& shape, DType dtype) {
  return call.cast(reshaped(call, call.operand(i), shape), dtype);
}

// momentum * running + (1 - momentum) * statistic, whose variance is that of the batch alone.
void collect(NodeImportCall& call, int operand, int result, ir::Value* statistic, double momentum) {
  ir::Value* running = call.operand(operand);
  const ir::Type type = running->type();
  ir::Value* wide = widened(call, running);
  statistic = call.cast(reshaped(call, call.op("detach", {statistic}), type.shape), wide->type().dtype);
  ir::Value* next =
      call.cast(call.op("add", {call.op("mul", {wide, scalar_like(call, wide, momentum)}),
                                call.op("mul", {statistic, scalar_like(call, wide, 1.0 - momentum)})}),
                type.dtype);
  call.set_result(result, next);
  call.write(operand, next);
}

// Whether the node uses the statistics of its batch: said by an attribute before version 7 and from 14 on, by
// the number of its results in between.
bool uses_batch(NodeImportCall& call) {
  if (call.version() < 7) return call.integer("is_test", 0) == 0;
  if (call.version() >= 14) return call.integer("training_mode", 0) == 1;
  bool has_more = false;
  for (int i = 1; i < call.result_count(); ++i) has_more = has_more || call.has_result(i);
  return has_more;
}

void import_batch_norm(NodeImportCall& call) {
  ir::Value* x = widened(call, call.operand(0));
  const DType result = call.operand(0)->type().dtype, dtype = x->type().dtype;
  const Shape shape = x->type().shape;
  if (shape.size() < 2)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {}, which has no channels.",
                                                      call.described(), to_string(shape)));
  if (call.version() < 9 && call.integer("spatial", 1) != 1) call.unsupported("spatial=0");
  const double eps = call.real("epsilon", 1e-5), momentum = call.real("momentum", 0.9);
  const Shape channel = per_channel(shape);
  for (int i = 1; i <= 4; ++i)
    if (call.operand(i)->type().shape != Shape{shape[1]})
      throw Error(
          ErrorCode::kTypeMismatch,
          fmt::format("shape mismatch: operand {} of {} is {}; x {} has {} channels.", i, call.described(),
                      to_string(call.operand(i)->type().shape), to_string(shape), shape[1]));
  ir::Value *scale = factor(call, 1, channel, dtype), *bias = factor(call, 2, channel, dtype);
  if (!uses_batch(call)) {
    ir::Value *mean = factor(call, 3, channel, dtype), *variance = factor(call, 4, channel, dtype);
    // One multiply and one add per element.
    ir::Value* slope = call.op("mul", {inverse_deviation(call, variance, eps), scale});
    ir::Value* shift = call.op("sub", {bias, call.op("mul", {mean, slope})});
    return call.set_result(0, call.cast(call.op("add", {call.op("mul", {x, slope}), shift}), result));
  }
  std::vector<int64_t> dims{0};
  for (size_t d = 2; d < shape.size(); ++d) dims.push_back(static_cast<int64_t>(d));
  const Statistics s = statistics(call, x, dims);
  ir::Value* y = call.op("mul", {s.centered, inverse_deviation(call, s.variance, eps)});
  call.set_result(0, call.cast(call.op("add", {call.op("mul", {y, scale}), bias}), result));
  collect(call, 3, 1, s.mean, momentum);
  collect(call, 4, 2, s.variance, momentum);
}

// y * scale (operand 1) + bias (operand 2), both in the shape that broadcasts.
ir::Value* affine(NodeImportCall& call, ir::Value* y, const Shape& shape) {
  const DType dtype = y->type().dtype;
  y = call.op("mul", {y, factor(call, 1, shape, dtype)});
  return call.has_operand(2) ? call.op("add", {y, factor(call, 2, shape, dtype)}) : y;
}

std::vector<int64_t> dims_from(size_t first, size_t rank) {
  std::vector<int64_t> dims(rank - first);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(first));
  return dims;
}

void import_layer_norm(NodeImportCall& call) {
  if (call.integer("stash_type", 1) != 1) call.unsupported("stash_type other than 1 (float)");
  ir::Value* x = widened(call, call.operand(0));
  const DType result = call.operand(0)->type().dtype;
  const Shape shape = x->type().shape;
  const int64_t axis = axis_of(call, "axis", -1, shape.size());
  const Statistics s = statistics(call, x, dims_from(static_cast<size_t>(axis), shape.size()));
  ir::Value* slope = inverse_deviation(call, s.variance, call.real("epsilon", 1e-5));
  ir::Value* y = call.op("mul", {s.centered, slope});
  y = call.op("mul", {y, widened(call, call.operand(1))});
  if (call.has_operand(2)) y = call.op("add", {y, widened(call, call.operand(2))});
  if (y->type().shape != shape)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: scale and bias of {} do not broadcast to x, {}.",
                            call.described(), to_string(shape)));
  call.set_result(0, call.cast(y, result));
  call.set_result(1, s.mean);
  call.set_result(2, slope);
}

void import_instance_norm(NodeImportCall& call) {
  ir::Value* x = widened(call, call.operand(0));
  const Shape shape = x->type().shape;
  if (shape.size() < 3)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which has no spatial dimensions.", call.described(),
                            to_string(shape)));
  const Statistics s = statistics(call, x, dims_from(2, shape.size()));
  ir::Value* y =
      call.op("mul", {s.centered, inverse_deviation(call, s.variance, call.real("epsilon", 1e-5))});
  call.set_result(0, call.cast(affine(call, y, per_channel(shape)), call.operand(0)->type().dtype));
}

// Scale and bias are per channel since version 21; version 18 had them per group.
void import_group_norm(NodeImportCall& call) {
  if (call.integer("stash_type", 1) != 1) call.unsupported("stash_type other than 1 (float)");
  ir::Value* x = widened(call, call.operand(0));
  const Shape shape = x->type().shape;
  const int64_t groups = call.integer("num_groups");
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} with num_groups {}.",
                                                      call.described(), to_string(shape), groups));
  const int64_t size = x->type().elements() / std::max<int64_t>(1, shape[0] * groups);
  const Statistics s = statistics(call, reshaped(call, x, {shape[0], groups, size}), {2});
  ir::Value* y =
      call.op("mul", {s.centered, inverse_deviation(call, s.variance, call.real("epsilon", 1e-5))});
  y = affine(call, reshaped(call, y, shape), per_channel(shape));
  call.set_result(0, call.cast(y, call.operand(0)->type().dtype));
}

struct Registrations {
  Registrations() {
    register_onnx_importer("BatchNormalization", {6}, import_batch_norm);
    register_onnx_importer("LayerNormalization", {17}, import_layer_norm);
    register_onnx_importer("InstanceNormalization", {6}, import_instance_norm);
    register_onnx_importer("GroupNormalization", {21}, import_group_norm);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
