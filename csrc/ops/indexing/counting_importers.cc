// Importer of bincount: a sum per class.
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// The size of the result is minlength: larger numbers are out of range.
void import_bincount(AtenImportCall& call) {
  const ir::Type result = call.result_type(0);
  const int64_t classes = result.shape[0];
  ir::Value* x = call.tensor("self");
  if (is_floating_point(x->type().dtype)) x = call.op("floor", {x});
  ir::Value* index = call.cast(x, DType::kI32);
  ir::Value* weights = call.has("weights") ? call.cast(call.tensor("weights"), result.dtype)
                                           : call.builder().splat({result.dtype, x->type().shape}, 1.0);
  ir::Value* zeros = call.builder().splat({result.dtype, {classes}}, 0.0);
  call.set_result(0, call.op("scatter_add", {zeros, index, weights}, {{"dim", int64_t{0}}}));
}

struct CountingImporters {
  CountingImporters() { register_aten_importer("bincount", import_bincount); }
};
const CountingImporters counting_importers;

}  // namespace
}  // namespace ipu::ops
