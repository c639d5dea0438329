// Importers of renorm and of what embedding(max_norm=...) does to its table: slices longer than a bound are shortened.
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

// x with the slices over all but `dim` whose p-norm is larger than `longest` scaled to it, as in torch.
ir::Value* shortened(ImportCall& call, ir::Value* x, double p, int64_t dim, double longest) {
  // Sums of halves overflow: they are computed in f32 and rounded once.
  const DType result = x->type().dtype, dtype = result == DType::kF16 ? DType::kF32 : result;
  x = call.cast(x, dtype);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < std::ssize(x->type().shape); ++d)
    if (d != dim) others.push_back(d);
  const auto number = [&](double v) { return call.builder().scalar(dtype, v); };
  ir::Value* norm = vector_norm(call.builder(), x, p, others, true);
  ir::Value* factor = call.op("div", {number(longest), call.op("add", {norm, number(1e-7)})});
  factor = call.op("where", {call.op("greater", {norm, number(longest)}), factor, number(1.0)});
  return call.cast(call.op("mul", {x, factor}), result);
}

void import_renorm(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  call.set_result(0, shortened(call, x, call.real("p"), dim, call.real("maxnorm")));
}

// Only the rows that are read; of a row that is read twice both results are the same.
void import_embedding_renorm(AtenImportCall& call) {
  ir::Value *table = call.tensor("self"), *index = call.cast(call.tensor("indices"), DType::kI32);
  index = reshaped(call, index, {index->type().elements()});
  ir::Value* rows = call.op("index_select", {table, index}, {{"dim", int64_t{0}}});
  rows = shortened(call, rows, call.real("norm_type"), 0, call.real("max_norm"));
  call.set_result(0, call.op("index_copy", {table, index, rows}, {{"dim", int64_t{0}}}));
}

struct RenormImporters {
  RenormImporters() {
    register_aten_importer("renorm", import_renorm);
    register_aten_importer("embedding_renorm", import_embedding_renorm);
  }
};
const RenormImporters renorm_importers;

}  // namespace
}  // namespace ipu::ops
