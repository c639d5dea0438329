// Importers of ONNX's reductions.
#include "ops/definition/popart_operators.h"
#include "ops/reduction/node_reduction.h"
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

ir::Value* reduced(NodeImportCall& call, std::string_view kind, ir::Value* x, const Reduction& reduction) {
  if (reduction.dims.empty()) return x;
  return call.op(kind, {x}, {{"dims", reduction.dims}, {"keep_dims", reduction.keeps}});
}

void import_plain(NodeImportCall& call, const char* kind, int operand_since) {
  ir::Value* x = call.operand(0);
  const Reduction reduction = read_reduction(call, x->type().shape.size(), operand_since);
  const bool is_truth = x->type().dtype == DType::kBool;  // maximum and minimum, from version 20
  ir::Value* y = reduced(call, kind, is_truth ? call.cast(x, DType::kI32) : x, reduction);
  y = is_truth ? call.cast(y, DType::kBool) : y;
  call.set_result(0, y == x ? call.op("nop", {x}) : y);
}

void import_sum_of(NodeImportCall& call, const char* what) {
  ir::Value* x = call.operand(0);
  const Reduction reduction = read_reduction(call, x->type().shape.size(), 18);
  const std::string_view kind(what);
  if (kind == "square") x = call.op("mul", {x, x});
  if (kind == "abs") x = call.op("abs", {x});
  ir::Value* sum = reduced(call, "reduce_sum", x, reduction);
  call.set_result(0, kind == "log" ? call.op("log", {sum}) : sum);
}

void import_norm(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Reduction reduction = read_reduction(call, x->type().shape.size(), 18);
  call.set_result(0, reduction.dims.empty()
                         ? call.op("abs", {x})
                         : vector_norm(call.builder(), x, 2.0, reduction.dims, reduction.keeps));
}

void import_log_sum_exp(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Reduction reduction = read_reduction(call, x->type().shape.size(), 18);
  ir::Value* y = log_sum_exp(call, x, reduction.dims);
  Shape shape;
  for (size_t d = 0; d < x->type().shape.size(); ++d)
    if (reduction.keeps ||
        !std::binary_search(reduction.dims.begin(), reduction.dims.end(), static_cast<int64_t>(d)))
      shape.push_back(y->type().shape[d]);
  call.set_result(0, reshaped(call, y, shape));
}

void import_place(NodeImportCall& call, const char* kind) {
  ir::Value* x = call.operand(0);
  if (call.version() >= 12 && call.integer("select_last_index", 0) != 0)
    call.unsupported("select_last_index=1");
  call.set_result(0, call.op(kind, {x},
                             {{"dim", axis_of(call, "axis", 0, x->type().shape.size())},
                              {"keep_dims", call.integer("keepdims", 1) == 1}}));
}

struct ReductionOnnxImporters {
  ReductionOnnxImporters() {
    register_onnx_importer("ReduceSum", {6}, [](NodeImportCall& c) {
      import_plain(c, "reduce_sum", axes_operand_since("ReduceSum"));
    });
    for (const auto& [type, kind] : {std::pair{"ReduceMean", "reduce_mean"},
                                     {"ReduceMax", "reduce_max"},
                                     {"ReduceMin", "reduce_min"},
                                     {"ReduceProd", "reduce_prod"}})
      register_onnx_importer(type, {6}, [kind = kind](NodeImportCall& c) { import_plain(c, kind, 18); });
    for (const auto& [type, what] :
         {std::pair{"ReduceSumSquare", "square"}, {"ReduceL1", "abs"}, {"ReduceLogSum", "log"}})
      register_onnx_importer(type, {6}, [what = what](NodeImportCall& c) { import_sum_of(c, what); });
    register_onnx_importer("ReduceL2", {6}, import_norm);
    register_onnx_importer("ReduceLogSumExp", {6}, import_log_sum_exp);
    register_onnx_importer("ArgMax", {6}, [](NodeImportCall& c) { import_place(c, "argmax"); });
    register_onnx_importer("ArgMin", {6}, [](NodeImportCall& c) { import_place(c, "argmin"); });
  }
};
const ReductionOnnxImporters reduction_onnx_importers;

const PopartOperators reduction_popart = {{
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare",
     "1 11", "data:A", "reduced:A", "yes", "axes keepdims"},
    {"ArgMax ArgMin", "1 11", "data:N", "reduced:INDEX", "none", "axis keepdims"},
}};

}  // namespace
}  // namespace ipu::ops
