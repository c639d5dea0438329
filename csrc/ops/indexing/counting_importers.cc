// Importer of bincount: a sum per class.
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// Numbers from minlength on are counted beyond the end and cut off.
void import_bincount(AtenImportCall& call) {
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

struct CountingImporters {
  CountingImporters() { register_aten_importer("bincount", import_bincount); }
};
const CountingImporters counting_importers;

}  // namespace
}  // namespace ipu::ops
