// Importers of TensorFlow's batch normalisation and of its gradient, and of LRN.
#include <fmt/core.h>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct Norm {
  ir::Value* x;  // [N, C, ...]
  bool is_last;
  double eps;
};
Norm read_norm(NodeImportCall& call, int x) {
  const bool is_last = is_channels_last(call);
  ir::Value* image = is_last ? channels_first(call, call.operand(x)) : call.operand(x);
  return {image, is_last, call.real("epsilon", 1e-4)};
}
ir::Value* as_given(NodeImportCall& call, const Norm& n, ir::Value* y) {
  return n.is_last ? channels_last(call, y) : y;
}

// Six results: y; the mean and the variance that running ones become, the variance Bessel-corrected; mean and variance for the
// gradient; and what only GPUs have.
void import_batch_norm(NodeImportCall& call) {
  const Norm n = read_norm(call, 0);
  const int64_t channels = n.x->type().shape[1];
  ir::Value *scale = call.operand(1), *offset = call.operand(2), *mean = call.operand(3),
            *variance = call.operand(4);
  const double share = call.real("exponential_avg_factor", 1.0);
  if (call.has_result(5)) call.set_result(5, call.builder().scalar(DType::kF32, 0.0));
  if (!call.boolean("is_training")) {
    ir::Value* y = call.op("batch_norm_inference", {n.x, mean, variance, scale, offset}, {{"eps", n.eps}});
    call.set_result(0, as_given(call, n, y));
    for (const int i : {1, 3}) {
      if (call.has_result(i)) call.set_result(i, call.op("nop", {mean}));
      if (call.has_result(i + 1)) call.set_result(i + 1, call.op("nop", {variance}));
    }
    return;
  }
  std::vector<ir::Value*> operands{n.x, scale, offset};
  if (share != 1.0) operands.insert(operands.end(), {mean, variance});
  const int64_t count = n.x->type().elements() / std::max<int64_t>(channels, 1);
  const ir::Op* norm = build_op(call.builder(), "batch_norm", operands,
                                {{"eps", n.eps}, {"momentum", share}, {"unbiased", count > 1}});
  call.set_result(0, as_given(call, n, norm->result(0)));
  for (const int i : {1, 2}) {
    if (call.has_result(i)) call.set_result(i, norm->result(i + 2));
    if (call.has_result(i + 2)) call.set_result(i + 2, reshaped(call, norm->result(i), {channels}));
  }
}

// Operands dy, x, scale, and the mean and the variance that the forward op gave; three results, for x, scale and offset.
void import_batch_norm_gradient(NodeImportCall& call) {
  const Norm n = read_norm(call, 1);
  const Norm dy = read_norm(call, 0);
  ir::Value *scale = call.operand(2), *mean = call.operand(3), *variance = call.operand(4);
  if (call.has_operand(5)) call.ignore("reserve_space_3");
  const bool is_training = call.boolean("is_training");
  Shape channel(n.x->type().shape.size(), 1);
  channel[1] = n.x->type().shape[1];
  const auto statistic = [&](ir::Value* value) {
    return is_training ? reshaped(call, value, channel) : value;
  };
  mean = statistic(mean);
  variance = statistic(variance);
  // No gradient depends on the offset; scale stands for its type.
  const std::vector<ir::Value*> operands =
      is_training ? std::vector<ir::Value*>{n.x, scale, scale, nullptr, nullptr, mean, variance, dy.x}
                  : std::vector<ir::Value*>{n.x, mean, variance, scale, scale, dy.x};
  const ir::Op* gradient = is_training ? build_op(call.builder(), "batch_norm_gradient", operands,
                                                  {{"eps", n.eps}, {"wants", Shape{0, 1, 2}}})
                                       : build_op(call.builder(), "batch_norm_inference_gradient", operands,
                                                  {{"eps", n.eps}, {"wants", Shape{0, 3, 4}}});
  call.set_result(0, as_given(call, n, gradient->result(0)));
  for (const int i : {1, 2}) {
    if (call.has_result(i)) call.set_result(i, gradient->result(i));
    if (call.has_result(i + 2)) call.set_result(i + 2, call.builder().splat({DType::kF32, {0}}, 0.0));
  }
}

// The sum over neighbouring channels: the window is one over columns of an image with one row per pixel; what lies outside counts as 0.
Term sum_of_neighbours(NodeImportCall& call, const Term& x) {
  const Shape shape = x.value()->type().shape;
  const int64_t radius = call.integer("depth_radius", 5), size = 2 * radius + 1;
  const int64_t channels = node_dim(call, -1, shape.size());
  const int64_t rows = x.value()->type().elements() / std::max<int64_t>(shape[channels], 1);
  const Term sum{call, call.op("avg_pool", {reshaped(call, x.value(), {1, 1, rows, shape[channels]})},
                               {{"kernel", Shape{1, size}},
                                {"strides", Shape{1, 1}},
                                {"padding_low", Shape{0, radius}},
                                {"padding_high", Shape{0, radius}},
                                {"divisor", int64_t{1}}})};
  return {call, reshaped(call, sum.value(), shape)};
}

void import_lrn(NodeImportCall& call) {
  const Term x = term(call, 0), sum = sum_of_neighbours(call, square(x));
  set_result(call, x / power(sum * call.real("alpha", 1.0) + call.real("bias", 1.0), call.real("beta", 0.5)));
}

// Of (dy, x, y).
void import_lrn_gradient(NodeImportCall& call) {
  const Term dy = term(call, 0), x = term(call, 1), y = term(call, 2);
  const double alpha = call.real("alpha", 1.0), beta = call.real("beta", 0.5);
  const Term base = sum_of_neighbours(call, square(x)) * alpha + call.real("bias", 1.0);
  const Term others = sum_of_neighbours(call, dy * y / base);
  set_result(call, dy / power(base, beta) - x * others * (2.0 * alpha * beta));
}

struct NormalizationTensorflowImporters {
  NormalizationTensorflowImporters() {
    for (const char* type : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
      register_tensorflow_importer(type, import_batch_norm);
    for (const char* type : {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"})
      register_tensorflow_importer(type, import_batch_norm_gradient);
    register_tensorflow_importer("LRN", import_lrn);
    register_tensorflow_importer("LRNGrad", import_lrn_gradient);
  }
};
const NormalizationTensorflowImporters normalization_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
