// Importers that sort numbers into classes: bincount (a sum per class) and bucketize (boundaries below a
// value).
#include "ops/rule_support.h"

namespace ipu::ops {
namespace {

// Numbers from minlength on are counted beyond the end and cut off.
void import_bincount(ImportCall& call) {
  const ir::Type result = call.result_type(0);
  const int64_t classes = result.shape[0];
  ir::Value* x = call.tensor("self");
  if (is_floating_point(x->type().dtype)) x = call.op("floor", {x});
  ir::Value* last = call.builder().scalar(DType::kI32, static_cast<double>(classes));
  ir::Value* index = call.op("minimum", {call.cast(x, DType::kI32), last});
  ir::Value* weights = call.has("weights") ? call.cast(call.tensor("weights"), result.dtype)
                                           : call.builder().splat({result.dtype, x->type().shape}, 1.0);
  ir::Value* zeros = call.builder().splat({result.dtype, {classes + 1}}, 0.0);
  ir::Value* sums = call.op("scatter_add", {zeros, index, weights}, {{"dim", int64_t{0}}});
  call.set_result(0, sliced(call, sums, 0, 0, classes));
}

void import_bucketize(ImportCall& call) {
  const DType dtype = call.promoted({"self", "boundaries"});
  ir::Value *x = call.cast(call.tensor("self"), dtype),
            *boundaries = call.cast(call.tensor("boundaries"), dtype);
  Shape column = x->type().shape;
  column.push_back(1);
  const int64_t dim = std::ssize(column) - 1;
  const bool right = call.has("right") && call.boolean("right");
  ir::Value* below = call.op(right ? "less_equal" : "less", {boundaries, reshaped(call, x, column)});
  ir::Value* count = call.op("reduce_sum", {call.cast(below, DType::kI32)},
                             {{"dims", std::vector<int64_t>{dim}}, {"keep_dims", false}});
  call.set_result(0, count);
}

struct Registrations {
  Registrations() {
    register_aten_importer("bincount", import_bincount);
    register_aten_importer("bucketize.Tensor", import_bucketize);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
