// Importers of torch's reductions: sum, mean, extremes, any and all, variance and deviation, norms,
// logsumexp. What has no op of its own is composed of the reduce_* family and elementwise ops.
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

// The dims argument, ascending; absent, None or empty means all dimensions.
std::vector<int64_t> reduced_dims(AtenImportCall& call, size_t rank) {
  std::vector<int64_t> dims;
  if (call.has("dim") && rank > 0) {
    static constexpr std::string_view kOneDim[] = {"any.dim", "all.dim", "prod.dim_int", "count_nonzero"};
    const bool one = std::find(std::begin(kOneDim), std::end(kOneDim), call.overload()) != std::end(kOneDim);
    dims = normalize_dims(one ? std::vector<int64_t>{call.integer("dim")} : call.integers("dim"), rank);
  }
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

// Powers and long sums of halves overflow and cancel: they are computed in f32 and rounded once.
DType computed_in(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }

void set_rounded(AtenImportCall& call, int i, ir::Value* value) {
  call.set_result(i, reshaped(call, call.cast(value, call.result_type(i).dtype), call.result_type(i).shape));
}

bool keeps_dims(AtenImportCall& call) { return call.has("keepdim") && call.boolean("keepdim"); }

ir::Value* reduced(ir::Builder& builder, std::string_view kind, ir::Value* x,
                   const std::vector<int64_t>& dims, bool keep) {
  if (dims.empty()) return x;  // a scalar
  return build(builder, kind, {x}, {{"dims", dims}, {"keep_dims", keep}});
}
ir::Value* reduced(ImportCall& call, std::string_view kind, ir::Value* x, const std::vector<int64_t>& dims,
                   bool keep) {
  return reduced(call.builder(), kind, x, dims, keep);
}

void import_reduce(AtenImportCall& call, std::string_view kind) {
  // torch's type of the result says in which dtype to add (bool counts as i32, dtype= wins).
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  if (x->type().dtype == DType::kBool)  // the largest of truth values says whether there is a true one
    kind = kind == "reduce_max" ? "reduce_any" : kind == "reduce_min" ? "reduce_all" : kind;
  call.set_result(0, reduced(call, kind, x, dims, keeps_dims(call)));
}

void import_nansum(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  if (is_floating_point(x->type().dtype)) {
    ir::Value* zero = call.builder().scalar(x->type().dtype, 0.0);
    x = call.op("where", {call.op("is_nan", {x}), zero, x});
  }
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  call.set_result(
      0, reduced(call, "reduce_sum", call.cast(x, call.result_type(0).dtype), dims, keeps_dims(call)));
}

// any and all: truth of each element first, also for numbers; u8 input gives u8 in torch.
void import_truth(AtenImportCall& call, std::string_view kind) {
  ir::Value* x = call.cast(call.tensor("self"), DType::kBool);
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  call.set_result(0, call.cast(reduced(call, kind, x, dims, keeps_dims(call)), call.result_type(0).dtype));
}

// The root of a sum of powers, and a power below 1, has an infinite slope at zero; torch gives zero gradient
// there. `root` sees 1 instead.
template <typename Root>
ir::Value* root_with_zero_gradient_at_zero(ir::Builder& builder, ir::Value* x, Root root,
                                           double value_at_zero = 0.0) {
  ir::Value* zero = builder.scalar(x->type().dtype, 0.0);
  ir::Value* one = builder.scalar(x->type().dtype, 1.0);
  ir::Value* is_zero = build(builder, "equal", {x, zero});
  ir::Value* there = builder.scalar(x->type().dtype, value_at_zero);
  return build(builder, "where", {is_zero, there, root(build(builder, "where", {is_zero, one, x}))});
}

ir::Value* square_root(ir::Builder& builder, ir::Value* x) {
  return root_with_zero_gradient_at_zero(builder, x,
                                         [&](ir::Value* v) { return build(builder, "sqrt", {v}); });
}

struct Moments {
  ir::Value *variance, *mean;
};
Moments moments(AtenImportCall& call) {
  const DType dtype = computed_in(call.tensor("self")->type().dtype);
  ir::Value* x = call.cast(call.tensor("self"), dtype);
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  double correction = 1.0;
  if (call.has("unbiased")) correction = call.boolean("unbiased") ? 1.0 : 0.0;
  if (call.has("correction")) correction = call.real("correction");
  double count = 1.0;
  for (const int64_t d : dims) count *= static_cast<double>(x->type().shape[d]);
  ir::Value* mean = reduced(call, "reduce_mean", x, dims, true);
  ir::Value* centered = call.op("sub", {x, mean});
  ir::Value* sum = reduced(call, "reduce_sum", call.op("mul", {centered, centered}), dims, true);
  // Too few elements for the correction: NaN or infinity, as in torch.
  ir::Value* divisor = call.builder().scalar(dtype, std::max(0.0, count - correction));
  return {call.op("div", {sum, divisor}), mean};
}

void import_variance(AtenImportCall& call, bool deviation, bool with_mean) {
  const Moments m = moments(call);
  ir::Value* spread = deviation ? square_root(call.builder(), m.variance) : m.variance;
  set_rounded(call, 0, spread);
  if (with_mean) set_rounded(call, 1, m.mean);
}

}  // namespace

ir::Value* log_sum_exp(ImportCall& call, ir::Value* x, const std::vector<int64_t>& dims) {
  const auto scalar = [&](double v) { return call.builder().scalar(x->type().dtype, v); };
  ir::Value* largest = call.op("detach", {reduced(call, "reduce_max", x, dims, true)});
  ir::Value* infinite =
      call.op("equal", {call.op("abs", {largest}), scalar(std::numeric_limits<double>::infinity())});
  ir::Value* shift = call.op("where", {infinite, scalar(0.0), largest});
  ir::Value* sum = reduced(call, "reduce_sum", call.op("exp", {call.op("sub", {x, shift})}), dims, true);
  return call.op("add", {call.op("log", {sum}), shift});
}

ir::Value* vector_norm(ir::Builder& builder, ir::Value* x, double p, const std::vector<int64_t>& dims,
                       bool keep) {
  const DType dtype = x->type().dtype;
  const auto scalar = [&](double v) { return builder.scalar(dtype, v); };
  if (p == 0.0) {
    ir::Value* counts = build(builder, "not_equal", {x, scalar(0.0)});
    return reduced(builder, "reduce_sum", build(builder, "cast", {counts}, {{"dtype", dtype}}), dims, keep);
  }
  if (p == 2.0) {
    return square_root(builder, reduced(builder, "reduce_sum", build(builder, "mul", {x, x}), dims, keep));
  }
  ir::Value* size = build(builder, "abs", {x});
  if (p == 1.0) return reduced(builder, "reduce_sum", size, dims, keep);
  if (std::isinf(p)) return reduced(builder, p > 0 ? "reduce_max" : "reduce_min", size, dims, keep);
  const auto power = [&](ir::Value* base) { return build(builder, "pow", {base, scalar(p)}); };
  const double at_zero = p < 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
  ir::Value* powers = p < 1.0 ? root_with_zero_gradient_at_zero(builder, size, power, at_zero) : power(size);
  ir::Value* sum = reduced(builder, "reduce_sum", powers, dims, keep);
  const auto root = [&](ir::Value* v) { return build(builder, "pow", {v, scalar(1.0 / p)}); };
  return p < 0.0 ? root(sum) : root_with_zero_gradient_at_zero(builder, sum, root);
}

namespace {

void import_norm(AtenImportCall& call, std::string_view order) {
  ir::Value* x = call.cast(call.tensor("self"), computed_in(call.result_type(0).dtype));
  const double p = call.has(order) ? call.real(order) : 2.0;
  const std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  set_rounded(call, 0, vector_norm(call.builder(), x, p, dims, keeps_dims(call)));
}

void import_logsumexp(AtenImportCall& call) {
  ir::Value* x = call.cast(call.tensor("self"), computed_in(call.result_type(0).dtype));
  set_rounded(call, 0, log_sum_exp(call, x, reduced_dims(call, x->type().shape.size())));
}

void import_dist(AtenImportCall& call) {
  const DType dtype = computed_in(call.result_type(0).dtype);
  ir::Value* x = call.op("sub", {call.operand("self", dtype), call.operand("other", dtype)});
  std::vector<int64_t> dims(x->type().shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  set_rounded(call, 0, vector_norm(call.builder(), x, call.has("p") ? call.real("p") : 2.0, dims, false));
}

// (smallest, largest) along one dimension or of all.
void import_both_extremes(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const size_t rank = x->type().shape.size();
  std::vector<int64_t> dims;
  if (call.has("dim") && rank > 0) {
    dims = {normalize_dim(call.integer("dim"), rank)};
  } else {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  const bool is_bool = x->type().dtype == DType::kBool;
  const char* kinds[] = {is_bool ? "reduce_all" : "reduce_min", is_bool ? "reduce_any" : "reduce_max"};
  for (int i = 0; i < 2; ++i) set_rounded(call, i, reduced(call, kinds[i], x, dims, false));
}

void import_count_nonzero(AtenImportCall& call) {
  ir::Value* x = call.cast(call.cast(call.tensor("self"), DType::kBool), DType::kI32);
  std::vector<int64_t> dims = reduced_dims(call, x->type().shape.size());
  call.set_result(0, reduced(call, "reduce_sum", x, dims, false));
}

struct ReductionImporters {
  ReductionImporters() {
    const auto reduce = [](std::string_view kind) {
      return [kind](AtenImportCall& call) { import_reduce(call, kind); };
    };
    for (const char* name : {"sum", "sum.dim_IntList"}) register_aten_importer(name, reduce("reduce_sum"));
    for (const char* name : {"mean", "mean.dim"}) register_aten_importer(name, reduce("reduce_mean"));
    for (const char* name : {"amax", "max"}) register_aten_importer(name, reduce("reduce_max"));
    for (const char* name : {"amin", "min"}) register_aten_importer(name, reduce("reduce_min"));
    for (const char* name : {"prod", "prod.dim_int"}) register_aten_importer(name, reduce("reduce_prod"));
    const auto truth = [](std::string_view kind) {
      return [kind](AtenImportCall& call) { import_truth(call, kind); };
    };
    for (const char* name : {"any", "any.dim", "any.dims"}) register_aten_importer(name, truth("reduce_any"));
    for (const char* name : {"all", "all.dim", "all.dims"}) register_aten_importer(name, truth("reduce_all"));
    const auto variance = [](bool deviation, bool with_mean) {
      return [=](AtenImportCall& call) { import_variance(call, deviation, with_mean); };
    };
    for (const std::string form : {"", ".dim", ".correction"}) {
      register_aten_importer("var" + form, variance(false, false));
      register_aten_importer("std" + form, variance(true, false));
      register_aten_importer("var_mean" + form, variance(false, true));
      register_aten_importer("std_mean" + form, variance(true, true));
    }
    for (const char* name :
         {"norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype"}) {
      register_aten_importer(name, [](AtenImportCall& call) { import_norm(call, "p"); });
    }
    register_aten_importer("linalg_vector_norm", [](AtenImportCall& call) { import_norm(call, "ord"); });
    register_aten_importer("dist", import_dist);
    register_aten_importer("aminmax", import_both_extremes);
    register_aten_importer("nansum", import_nansum);
    register_aten_importer("logsumexp", import_logsumexp);
    for (const char* name : {"count_nonzero", "count_nonzero.dim_IntList"}) {
      register_aten_importer(name, import_count_nonzero);
    }
  }
};
const ReductionImporters reduction_importers;

}  // namespace
}  // namespace ipu::ops
