// Importer of torch's weight normalisation: v * (g / norm of v over all dimensions but one).
#include <numeric>

#include "ops/definition/rule_support.h"
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

void import_weight_norm(AtenImportCall& call) {
  const DType dtype = call.result_type(0).dtype;
  ir::Value *v = call.cast(call.tensor("v"), dtype), *g = call.cast(call.tensor("g"), dtype);
  const size_t rank = v->type().shape.size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  dims.erase(dims.begin() + normalize_dim(call.has("dim") ? call.integer("dim") : 0, rank));
  ir::Value* norm = vector_norm(call.builder(), v, 2.0, dims, true);
  call.set_result(0, call.op("mul", {v, call.op("div", {g, norm})}));
  call.set_result(1, call.cast(norm, call.result_type(1).dtype));
}

struct WeightNormRegistrations {
  WeightNormRegistrations() { register_aten_importer("_weight_norm_interface", import_weight_norm); }
};
const WeightNormRegistrations weight_norm_registrations;

}  // namespace
}  // namespace ipu::ops
