// gather and scatter_add: elements by index along one dimension, and their way back.
#include "ops/definition/sample_types.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

// Calls visit(index element, x element) for each element of the index operand.
template <typename Visit>
void for_each_gathered(const Shape& x, const ReferenceTensor& index, int64_t dim, std::string_view kind,
                       Visit visit) {
  Strides strides = contiguous_strides(x);
  const int64_t along = strides[dim];
  strides[dim] = 0;
  for_each_offset(index.type.shape, strides, 0, [&](int64_t linear, int64_t offset) {
    visit(linear, offset + checked_index(index, linear, x[dim], kind) * along);
  });
}

void import_gather(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  if (index->type().elements() == 0)
    return call.set_result(0, call.builder().splat(call.result_type(0), 0.0));
  if (x->type().shape.empty()) {  // a scalar has one element along one dimension
    ir::Value* y =
        call.op("gather", {reshaped(call, x, {1}), reshaped(call, index, {index->type().elements()})},
                {{"dim", int64_t{0}}});
    return call.set_result(0, reshaped(call, y, call.result_type(0).shape));
  }
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  call.set_result(0, call.op("gather", {x, index}, {{"dim", dim}}));
}

// take_along_dim: gather with broadcasting outside the dimension; without one, in the flattened tensor.
void import_take_along_dim(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("indices"), DType::kI32);
  if (!call.has("dim")) {
    ir::Value* y = call.op(
        "gather",
        {reshaped(call, x, {x->type().elements()}), reshaped(call, index, {index->type().elements()})},
        {{"dim", int64_t{0}}});
    return call.set_result(0, reshaped(call, y, call.result_type(0).shape));
  }
  Shape x_shape = x->type().shape, index_shape = index->type().shape;
  const int64_t dim = normalize_dim(call.integer("dim"), x_shape.size());
  index = index_from_front(call, index, x_shape[dim]);
  if (x_shape.size() != index_shape.size())
    call.unsupported("indices with another number of dimensions than the input");
  for (size_t d = 0; d < x_shape.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) continue;
    x_shape[d] = index_shape[d] = broadcast_shapes(Shape{x_shape[d]}, Shape{index_shape[d]})[0];
  }
  call.set_result(
      0, call.op("gather", {expanded(call, x, x_shape), expanded(call, index, index_shape)}, {{"dim", dim}}));
}

// Like torch, reads only the part of the source that the index covers when the source is larger.
void import_scatter_add(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  ir::Value* source = call.cast(call.tensor("src"), x->type().dtype);
  const Shape result = x->type().shape;
  if (result.empty()) {  // one element along one dimension
    x = reshaped(call, x, {1});
    index = reshaped(call, index, {index->type().elements()});
    source = reshaped(call, source, {source->type().elements()});
  }
  const Shape& shape = index->type().shape;
  if (shape.size() != x->type().shape.size() || shape.size() != source->type().shape.size())
    call.unsupported("self, index and src must have the same number of dimensions");
  if (index->type().elements() == 0) return call.set_result(0, reshaped(call, x, result));
  for (size_t d = 0; d < shape.size(); ++d)
    source = sliced(call, source, static_cast<int64_t>(d), 0, shape[d]);
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  if (x->type().dtype == DType::kBool) {  // a sum of truth values is their maximum
    ir::Value* y = call.op("scatter", {call.cast(x, DType::kU8), index, call.cast(source, DType::kU8)},
                           {{"dim", dim}, {"mode", std::string("max")}});
    return call.set_result(0, reshaped(call, call.cast(y, DType::kBool), result));
  }
  call.set_result(0, reshaped(call, call.op("scatter_add", {x, index, source}, {{"dim", dim}}), result));
}

const OpRegistration gather =
    define_op("gather", "indexing")
        .doc("y[i, j, ...] = x[index[i, j, ...], j, ...] for dim 0, and so on: one element of x per index.")
        .operand("x", kAnything)
        .operand("index", kAnyInteger)
        .attribute("dim")
        .result("y")
        .infer([](const InferContext& c) {
          require_gatherable(c, c.operand(0).shape, c.operand(1).shape,
                             dimension(c, "dim", c.operand(0).shape.size()));
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(1).shape}};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("scatter_add", {g.zeros(g.operand_type(0)), g.operand(1), g.upstream()},
                        {{"dim", g.attributes().integer("dim")}}));
        })
        .reference([](ReferenceCall& call) {
          for_each_gathered(call.operand(0).type.shape, call.operand(1), call.attributes.integer("dim"),
                            "gather", [&](int64_t linear, int64_t element) {
                              call.result().values[linear] = call.operand(0).values[element];
                            });
        })
        .work([](const ir::Op& op) {
          return std::vector{
              gather_from(op.operand(0)->type(), op.operand(1)->type().elements(), 1, false, apart_of(op))};
        })
        .from_aten({"gather"}, import_gather)
        .from_aten({"take_along_dim"}, import_take_along_dim)
        .samples({{{f32({3, 4}), i32({3, 2})}, {{"dim", int64_t{1}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({4, 3}), i32({6, 2})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}},
                  {{i32({2, 3, 2}), i32({2, 3, 2})}, {{"dim", int64_t{1}}}, -5, 5, {{1, {0, 2}}}}});

const OpRegistration scatter_add =
    define_op("scatter_add", "indexing")
        .doc(
            "x with src[i, j, ...] added at x[index[i, j, ...], j, ...] for dim 0, and so on; equal indices "
            "add up in "
            "row-major order.")
        .operand("x", kNumber)
        .operand("index", kAnyInteger)
        .operand("src", kNumber)
        .attribute("dim")
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 2);
          require_same_shape(c, 1, 2);
          require_gatherable(c, c.operand(0).shape, c.operand(1).shape,
                             dimension(c, "dim", c.operand(0).shape.size()));
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.upstream());
          if (g.needs(2)) {
            g.set(2, g.op("gather", {g.upstream(), g.operand(1)}, {{"dim", g.attributes().integer("dim")}}));
          }
        })
        .reference([](ReferenceCall& call) {
          call.result().values = call.operand(0).values;
          for_each_gathered(call.operand(0).type.shape, call.operand(1), call.attributes.integer("dim"),
                            "scatter_add", [&](int64_t linear, int64_t element) {
                              call.result().values[element] += call.operand(2).values[linear];
                            });
        })
        .work(scattered_elements)
        .from_aten({"scatter_add"}, import_scatter_add)
        .samples({{{f32({3, 4}), i32({3, 2}), f32({3, 2})}, {{"dim", int64_t{1}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({4, 3}), i32({6, 2}), f32({6, 2})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}}});

}  // namespace
}  // namespace ipu::ops
