// Importers of TensorFlow's reductions, whose dimensions are an operand.
#include <fmt/core.h>

#include <algorithm>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

// The dimensions that operand 1 names, ascending, each once; none is none.
std::vector<int64_t> reduced_dims(NodeImportCall& call, size_t rank) {
  std::vector<int64_t> dims = call.operand_integers(1, "reduction_indices");
  for (int64_t& dim : dims) dim = node_dim(call, dim, rank);
  std::ranges::sort(dims);
  if (std::ranges::adjacent_find(dims) != dims.end())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("axes named twice: {} has axes {}.", call.described(), to_string(dims)));
  return dims;
}

void import_reduction(NodeImportCall& call, const char* kind) {
  ir::Value* x = call.operand(0);
  const bool keeps = flag(call, "keep_dims");
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  call.set_result(
      0, dims.empty() ? call.op("nop", {x}) : call.op(kind, {x}, {{"dims", dims}, {"keep_dims", keeps}}));
}

void import_norm(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  const Attributes attributes{{"dims", dims}, {"keep_dims", flag(call, "keep_dims")}};
  const Term squares = square({call, x});
  set_result(call, sqrt(dims.empty() ? squares : squares.op("reduce_sum", attributes)));
}

void import_place(NodeImportCall& call, const char* kind) {
  tensorflow_dtype(call, "output_type");
  ir::Value* x = call.operand(0);
  const int64_t dim = operand_axis(call, 1, x->type().shape.size());
  call.set_result(0, call.op(kind, {x}, {{"dim", dim}}));
}

void import_l2_loss(NodeImportCall& call) {
  const Term x = term(call, 0);
  set_result(call, (x.op("square_sum") * 0.5).cast(x.dtype()));
}

struct ReductionTensorflowImporters {
  ReductionTensorflowImporters() {
    for (const auto& [type, kind] : {std::pair{"Sum", "reduce_sum"},
                                     {"Mean", "reduce_mean"},
                                     {"Max", "reduce_max"},
                                     {"Min", "reduce_min"},
                                     {"Prod", "reduce_prod"},
                                     {"All", "reduce_all"},
                                     {"Any", "reduce_any"}})
      register_tensorflow_importer(type,
                                   [kind = kind](NodeImportCall& call) { import_reduction(call, kind); });
    register_tensorflow_importer("EuclideanNorm", import_norm);
    register_tensorflow_importer("ArgMax", [](NodeImportCall& call) { import_place(call, "argmax"); });
    register_tensorflow_importer("ArgMin", [](NodeImportCall& call) { import_place(call, "argmin"); });
    register_tensorflow_importer("L2Loss", import_l2_loss);
  }
};
const ReductionTensorflowImporters reduction_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
