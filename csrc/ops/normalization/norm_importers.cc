// Importers of torch's normalisations (layer, batch, instance, group, RMS): composed of reductions and
// elementwise ops, whose gradients are right by construction. Batch statistics of training update the running
// ones as torch does. Halves are normalised in f32 and rounded once: their squares would overflow.
#include <limits>
#include <numeric>

#include "ops/normalization/norm_support.h"
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

DType computed_in(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }

ir::Value* scalar_of(ImportCall& call, ir::Value* like, double value) {
  return call.builder().scalar(like->type().dtype, value);
}

int64_t count_of(const Shape& shape, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= shape[d];
  return count;
}

ir::Value* mean_over(ImportCall& call, ir::Value* x, const std::vector<int64_t>& dims) {
  return call.op("reduce_mean", {x}, {{"dims", dims}, {"keep_dims", true}});
}

}  // namespace

ir::Value* widened(ImportCall& call, ir::Value* x) { return call.cast(x, computed_in(x->type().dtype)); }

Statistics statistics(ImportCall& call, ir::Value* x, const std::vector<int64_t>& dims) {
  ir::Value* mean = mean_over(call, x, dims);
  ir::Value* centered = call.op("sub", {x, mean});
  return {mean, mean_over(call, call.op("mul", {centered, centered}), dims), centered};
}

ir::Value* inverse_deviation(ImportCall& call, ir::Value* variance, double eps) {
  return call.op("rsqrt", {call.op("add", {variance, scalar_of(call, variance, eps)})});
}

Shape per_channel(const Shape& x) {
  Shape shape(x.size(), 1);
  shape[1] = x[1];
  return shape;
}

namespace {

// A weight takes the dtype of the input, then that of the computation.
ir::Value* weight_like(AtenImportCall& call, std::string_view name, const Shape& shape) {
  const DType dtype = call.tensor("input")->type().dtype;
  return widened(call, call.cast(reshaped(call, call.tensor(name), shape), dtype));
}

// y * weight + bias, each optional and reshaped to `shape` first, in the dtype of the input.
ir::Value* affine(AtenImportCall& call, ir::Value* y, const Shape& shape) {
  if (call.has("weight")) y = call.op("mul", {y, weight_like(call, "weight", shape)});
  if (call.has("bias")) y = call.op("add", {y, weight_like(call, "bias", shape)});
  return call.cast(y, call.tensor("input")->type().dtype);
}

std::vector<int64_t> last_dims(AtenImportCall& call, size_t rank) {
  const size_t count = call.integers("normalized_shape").size();
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(rank - count));
  return dims;
}

void import_layer_norm(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const std::vector<int64_t> dims = last_dims(call, x->type().shape.size());
  const Statistics s = statistics(call, x, dims);
  ir::Value* scale = inverse_deviation(call, s.variance, call.real("eps"));
  call.set_result(0, affine(call, call.op("mul", {s.centered, scale}), call.integers("normalized_shape")));
  if (call.result_count() < 3) return;
  call.set_result(1, call.cast(s.mean, call.result_type(1).dtype));
  call.set_result(2, call.cast(scale, call.result_type(2).dtype));
}

void import_rms_norm(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const std::vector<int64_t> dims = last_dims(call, x->type().shape.size());
  const double eps = call.has("eps") ? call.real("eps") : std::numeric_limits<float>::epsilon();
  ir::Value* scale = inverse_deviation(call, mean_over(call, call.op("mul", {x, x}), dims), eps);
  call.set_result(0, affine(call, call.op("mul", {x, scale}), call.integers("normalized_shape")));
}

void import_group_norm(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const Shape shape = x->type().shape;
  const int64_t groups = call.integer("num_groups");
  const int64_t size = x->type().elements() / std::max<int64_t>(1, shape[0] * groups);
  const Statistics s = statistics(call, reshaped(call, x, {shape[0], groups, size}), {2});
  ir::Value* y = call.op("mul", {s.centered, inverse_deviation(call, s.variance, call.real("eps"))});
  call.set_result(0, affine(call, reshaped(call, y, shape), per_channel(shape)));
}

// running = (1 - momentum) * running + momentum * statistic. Gradients do not flow into the state.
void update_running(AtenImportCall& call, std::string_view name, ir::Value* statistic) {
  if (!call.has(name)) return;
  const DType dtype = call.tensor(name)->type().dtype;
  ir::Value* running = widened(call, call.tensor(name));
  const double momentum = call.real("momentum");
  statistic =
      call.cast(reshaped(call, call.op("detach", {statistic}), running->type().shape), running->type().dtype);
  ir::Value* kept = call.op("mul", {running, scalar_of(call, running, 1.0 - momentum)});
  ir::Value* added = call.op("mul", {statistic, scalar_of(call, running, momentum)});
  call.write(name, call.cast(call.op("add", {kept, added}), dtype));
}

// The unbiased variance that running statistics collect.
ir::Value* unbiased(AtenImportCall& call, ir::Value* variance, int64_t count) {
  const double factor = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1)
                                  : std::numeric_limits<double>::quiet_NaN();
  return call.op("mul", {variance, scalar_of(call, variance, factor)});
}

// (x - mean) / deviation of given statistics as one multiply and one add per element.
ir::Value* normalized_by_state(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const Shape channel = per_channel(x->type().shape);
  const DType dtype = x->type().dtype;
  ir::Value* mean = call.cast(reshaped(call, call.tensor("running_mean"), channel), dtype);
  ir::Value* variance = call.cast(reshaped(call, call.tensor("running_var"), channel), dtype);
  ir::Value* scale = inverse_deviation(call, variance, call.real("eps"));
  if (call.has("weight")) scale = call.op("mul", {scale, weight_like(call, "weight", channel)});
  ir::Value* shift = call.op("neg", {call.op("mul", {mean, scale})});
  if (call.has("bias")) shift = call.op("add", {weight_like(call, "bias", channel), shift});
  return call.cast(call.op("add", {call.op("mul", {x, scale}), shift}), call.tensor("input")->type().dtype);
}

void import_batch_norm(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const Shape shape = x->type().shape;
  if (!call.boolean("training") && call.has("running_mean")) {
    return call.set_result(0, normalized_by_state(call));
  }
  std::vector<int64_t> dims{0};
  for (size_t d = 2; d < shape.size(); ++d) dims.push_back(static_cast<int64_t>(d));
  const Statistics s = statistics(call, x, dims);
  ir::Value* y = call.op("mul", {s.centered, inverse_deviation(call, s.variance, call.real("eps"))});
  call.set_result(0, affine(call, y, per_channel(shape)));
  update_running(call, "running_mean", s.mean);
  if (call.has("running_var"))
    update_running(call, "running_var", unbiased(call, s.variance, count_of(shape, dims)));
}

// Statistics of each sample and channel; the running ones collect their mean over the samples.
void import_instance_norm(AtenImportCall& call) {
  ir::Value* x = widened(call, call.tensor("input"));
  const Shape shape = x->type().shape;
  if (!call.boolean("use_input_stats")) return call.set_result(0, normalized_by_state(call));
  std::vector<int64_t> dims;
  for (size_t d = 2; d < shape.size(); ++d) dims.push_back(static_cast<int64_t>(d));
  const Statistics s = statistics(call, x, dims);
  ir::Value* y = call.op("mul", {s.centered, inverse_deviation(call, s.variance, call.real("eps"))});
  call.set_result(0, affine(call, y, per_channel(shape)));
  if (call.has("running_mean")) update_running(call, "running_mean", mean_over(call, s.mean, {0}));
  if (call.has("running_var")) {
    update_running(call, "running_var",
                   unbiased(call, mean_over(call, s.variance, {0}), count_of(shape, dims)));
  }
}

// v * (g / norm of v over all dimensions but one).
void import_weight_norm(AtenImportCall& call) {
  const DType dtype = call.result_type(0).dtype;
  ir::Value *v = call.cast(call.tensor("v"), dtype), *g = call.cast(call.tensor("g"), dtype);
  const size_t rank = v->type().shape.size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  dims.erase(dims.begin() + normalize_dim(call.has("dim") ? call.integer("dim") : 0, rank));
  ir::Value* norm = vector_norm(call, v, 2.0, dims, true);
  call.set_result(0, call.op("mul", {v, call.op("div", {g, norm})}));
  call.set_result(1, call.cast(norm, call.result_type(1).dtype));
}

struct Registrations {
  Registrations() {
    register_aten_importer("_weight_norm_interface", import_weight_norm);
    for (const char* name : {"layer_norm", "native_layer_norm"})
      register_aten_importer(name, import_layer_norm);
    register_aten_importer("rms_norm", import_rms_norm);
    register_aten_importer("group_norm", import_group_norm);
    register_aten_importer("batch_norm", import_batch_norm);
    register_aten_importer("instance_norm", import_instance_norm);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
