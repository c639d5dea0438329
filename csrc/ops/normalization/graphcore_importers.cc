// Importers of ai.graphcore's norms: their channels are dimension 1.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

void require_per_channel(NodeImportCall& call, int count) {
  const Shape& shape = call.operand(0)->type().shape;
  for (int i = 1; i < count; ++i)
    if (call.operand(i)->type().shape != Shape{shape[1]})
      node_shape_error(call,
                       fmt::format("of {} has {} as operand {}; it is one number for each of {} channels",
                                   to_string(shape), to_string(call.operand(i)->type().shape), i, shape[1]));
}

// One result: by the mean and variance that are given. Five: by those of the batch, which the running ones follow;
// the running variance follows the unbiased one.
void import_batch_norm(NodeImportCall& call) {
  require_float(call, 0);
  const Shape& shape = call.operand(0)->type().shape;
  if (shape.size() < 3)
    node_shape_error(call, fmt::format("of {}; x has three dimensions or more", to_string(shape)));
  require_per_channel(call, 5);
  const double eps = call.real("epsilon", 1e-5), momentum = call.real("momentum", 0.9);
  std::vector<ir::Value*> x;  // x, scale, bias, mean, variance
  for (int i = 0; i < 5; ++i) x.push_back(call.operand(i));
  const int results = call.result_count();
  if (results != 1 && results != 5)
    node_attribute_error(call, fmt::format("has {} outputs; it gives 1 or 5", results));
  if (results == 1) {
    ir::Value* y = call.op("batch_norm_inference", {x[0], x[3], x[4], x[1], x[2]}, {{"eps", eps}});
    return call.set_result(0, forward_only(call, y));
  }
  const ir::Op* norm =
      build_op(call.builder(), "batch_norm", x, {{"eps", eps}, {"momentum", 1.0 - momentum}});
  call.set_result(0, norm->result(0));
  for (int i = 0; i < 2; ++i) {
    ir::Value* next = call.op("detach", {norm->result(3 + i)});
    call.set_result(1 + i, next);
    if (call.is_initialiser(3 + i)) call.write(3 + i, next);
    ir::Value* saved = call.cast(norm->result(1 + i), x[3 + i]->type().dtype);
    call.set_result(3 + i, reshaped(call, call.op("detach", {saved}), {shape[1]}));
  }
}

// [..., a, b, ...] as [..., b, a, ...], where a * b is the size of dimension `axis`.
ir::Value* regrouped(NodeImportCall& call, ir::Value* value, size_t axis, int64_t a, int64_t b) {
  const Shape shape = value->type().shape;
  Shape apart = shape;
  apart[axis] = a;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, b);
  std::vector<int64_t> perm(apart.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[axis], perm[axis + 1]);
  return reshaped(call, transposed(call, reshaped(call, value, apart), perm), shape);
}

// Groups are neighbouring channels, or with `__strided_groups` (groupNormStridedChannelGrouping) every num_groups-th one.
void import_group_norm(NodeImportCall& call) {
  require_float(call, 0);
  const ir::Type x = call.operand(0)->type();
  if (x.shape.size() < 2) node_shape_error(call, fmt::format("of {}; x is [N, C, ...]", to_string(x.shape)));
  require_per_channel(call, 3);
  const int64_t groups = call.integer("num_groups");
  if (groups < 1 || x.shape[1] % groups != 0)
    node_shape_error(call, fmt::format("of {} has num_groups {}, which does not divide its {} channels",
                                       to_string(x.shape), groups, x.shape[1]));
  const int64_t members = x.shape[1] / groups;
  const bool is_strided = call.integer("__strided_groups", 0) != 0 && groups > 1 && members > 1;
  std::vector<ir::Value*> operands{call.operand(0), call.operand(1), call.operand(2)};
  for (size_t i = 0; is_strided && i < operands.size(); ++i)
    operands[i] = regrouped(call, operands[i], i == 0 ? 1 : 0, members, groups);
  const ir::Op* norm = build_op(call.builder(), "group_norm", operands,
                                {{"groups", groups}, {"eps", call.real("epsilon", 1e-5)}});
  call.set_result(0, is_strided ? regrouped(call, norm->result(), 1, groups, members) : norm->result());
  for (int i = 1; i < 3; ++i)
    call.set_result(i, reshaped(call, call.cast(norm->result(i), x.dtype), {x.shape[0] * groups}));
}

struct NormalizationGraphcoreImporters {
  NormalizationGraphcoreImporters() {
    register_graphcore_importer(
        {"BatchNormalization", "batchnormalization", "x:F scale:F bias:F mean:F var:F",
         "y:F mean?:F var?:F saved_mean?:F saved_var?:F", "yes",
         "num_outputs:count, epsilon:float=1e-5, momentum:float=0.9",
         "BatchNormalization whose running variance takes the unbiased variance of the batch."},
        import_batch_norm);
    register_graphcore_importer(
        {"GroupNormalization", "groupnormalization", "x:F scale:F bias:F", "y:F mean:F inverseDeviation:F",
         "yes", "num_groups:int, epsilon:float=1e-5",
         "[x, scale, bias]: y like x, and mean and inverse standard deviation [N * groups]."},
        import_group_norm);
  }
};
const NormalizationGraphcoreImporters normalization_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
