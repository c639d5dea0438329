// argmax and argmin: index of the first extreme element along a dimension; max.dim and min.dim gather by it,
// so their gradient goes to that element alone.
#include <fmt/core.h>

#include <cmath>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> arg_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const int64_t dim = dimension(c, "dim", x.shape.size());
  if (x.shape[dim] == 0) shape_error(fmt::format("no elements along dimension {}", dim));
  ir::Type y{DType::kI32, x.shape};
  if (c.attributes.boolean("keep_dims"))
    y.shape[dim] = 1;
  else
    y.shape.erase(y.shape.begin() + dim);
  return {y};
}

template <typename Better>
void find_first(ReferenceCall& call, Better better) {
  const Split3 s = split_at(call.operand(0).type.shape, call.attributes.integer("dim"));
  const std::vector<double>& x = call.operand(0).values;
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const auto at = [&](int64_t k) { return x[(o * s.size + k) * s.inner + i]; };
      int64_t best = 0;
      for (int64_t k = 1; k < s.size && !std::isnan(at(best)); ++k) {
        if (better(at(k), at(best)) || std::isnan(at(k))) best = k;
      }
      call.result().values[o * s.inner + i] = static_cast<double>(best);
    }
  }
}

// Truth values are compared as numbers.
ir::Value* comparable(AtenImportCall& call, ir::Value* x) {
  return x->type().dtype == DType::kBool ? call.cast(x, DType::kU8) : x;
}

// Without a dimension: index in the flattened tensor.
void import_arg(AtenImportCall& call, std::string_view kind) {
  ir::Value* x = comparable(call, call.tensor("self"));
  const bool keep = call.has("keepdim") && call.boolean("keepdim");
  ir::Value* index = nullptr;
  if (call.has("dim") && !x->type().shape.empty()) {
    const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
    index = call.op(kind, {x}, {{"dim", dim}, {"keep_dims", keep}});
  } else {
    index = call.op(kind, {reshaped(call, x, {x->type().elements()})},
                    {{"dim", int64_t{0}}, {"keep_dims", false}});
  }
  call.set_result(0, reshaped(call, index, call.result_type(0).shape));
}

// (values, indices) along a dimension.
void import_extreme_with_index(AtenImportCall& call, std::string_view kind) {
  ir::Value* x = call.tensor("self");
  if (x->type().shape.empty()) {
    call.set_result(0, x);
    call.set_result(1, call.builder().scalar(DType::kI32, 0));
    return;
  }
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  ir::Value* index = call.op(kind, {comparable(call, x)}, {{"dim", dim}, {"keep_dims", true}});
  ir::Value* value = call.op("gather", {x, index}, {{"dim", dim}});
  call.set_result(0, reshaped(call, value, call.result_type(0).shape));
  call.set_result(1, reshaped(call, index, call.result_type(1).shape));
}

OpDefBuilder arg_op(std::string name, std::string doc) {
  OpDefBuilder builder = define_op(name, "reduction");
  builder.doc(std::move(doc))
      .operand("x", kNumber)
      .attribute("dim")
      .attribute("keep_dims", false)
      .result("index")
      .infer(arg_type)
      // Of values and of their numbers.
      .work([](const ir::Op& op) {
        return std::vector{reduction_of(op.operand(0)->type(), op.result()->type().elements(), 2)};
      })
      .gradient_zero()
      .from_aten({name}, [name](AtenImportCall& call) { import_arg(call, name); })
      .samples({{{ir::Type{DType::kF32, {3, 4}}}, {{"dim", int64_t{1}}}},
                {{ir::Type{DType::kF32, {2, 3, 2}}}, {{"dim", int64_t{1}}, {"keep_dims", true}}},
                {{ir::Type{DType::kI32, {5}}}, {{"dim", int64_t{0}}}, -2, 2}});
  return builder;
}

const OpRegistration argmax =
    arg_op("argmax", "Index of the first largest element along dim; the first NaN counts as largest.")
        .reference([](ReferenceCall& call) { find_first(call, [](double a, double b) { return a > b; }); })
        .from_aten({"max.dim"}, [](AtenImportCall& call) { import_extreme_with_index(call, "argmax"); });

const OpRegistration argmin =
    arg_op("argmin", "Index of the first smallest element along dim; the first NaN counts as smallest.")
        .reference([](ReferenceCall& call) { find_first(call, [](double a, double b) { return a < b; }); })
        .from_aten({"min.dim"}, [](AtenImportCall& call) { import_extreme_with_index(call, "argmin"); });

}  // namespace
}  // namespace ipu::ops
