// index_select and index_add: whole slices by number along one dimension; x[i, :, j] with integer tensors is
// imported as one index_select over the merged dimensions.
#include <fmt/core.h>

#include "ops/definition/sample_types.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

// Calls visit(element of the slices, element of x).
template <typename Visit>
void for_each_selected(const Shape& x, const ReferenceTensor& index, int64_t dim, std::string_view kind,
                       Visit visit) {
  const Split3 s = split_at(x, dim);
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t k = 0; k < index.size(); ++k) {
      const int64_t row = checked_index(index, k, s.size, kind);
      for (int64_t i = 0; i < s.inner; ++i)
        visit((o * index.size() + k) * s.inner + i, (o * s.size + row) * s.inner + i);
    }
  }
}

ir::Value* select(AtenImportCall& call, ir::Value* x, ir::Value* index, int64_t dim) {
  return call.op("index_select", {x, index}, {{"dim", dim}});
}

void import_index_select(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  const Shape result = call.result_type(0).shape;
  index = reshaped(call, index, {index->type().elements()});
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  call.set_result(0, reshaped(call, select(call, x, index, dim), result));
}

// Elements by their number in the flattened tensor.
void import_take(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.tensor("index");
  const int64_t elements = x->type().elements();
  index = index_from_front(call, reshaped(call, index, {index->type().elements()}), elements);
  call.set_result(
      0, reshaped(call, select(call, reshaped(call, x, {elements}), index, 0), call.result_type(0).shape));
}

void import_index_add(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *index = call.cast(call.tensor("index"), DType::kI32);
  const Shape result = x->type().shape;
  if (result.empty()) x = reshaped(call, x, {1});
  ir::Value* source = call.cast(call.tensor("source"), x->type().dtype);
  if (call.has("alpha") && call.real("alpha") != 1.0) {
    source = call.op("mul", {source, call.builder().scalar(x->type().dtype, call.real("alpha"))});
  }
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  index = reshaped(call, index, {index->type().elements()});
  if (result.empty()) source = reshaped(call, source, {source->type().elements()});
  call.set_result(0, reshaped(call, call.op("index_add", {x, index, source}, {{"dim", dim}}), result));
}

void import_index(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const std::vector<ir::Value*> indices = call.tensors("indices");
  for (const ir::Value* index : indices) {
    if (index != nullptr && (index->type().dtype == DType::kBool || index->type().dtype == DType::kU8))
      call.unsupported("a boolean mask as index gives a shape that depends on data; use torch.where");
  }
  const std::optional<MergedIndex> merged = merge_indices(call, x, indices);
  if (!merged) return call.set_result(0, x);
  ir::Value* y = select(call, merged->flat, merged->index, merged->place);
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

const OpRegistration index_select =
    define_op("index_select", "indexing")
        .doc("Slices of x along dim by number, in the order of index [n].")
        .operand("x", kAnything)
        .operand("index", kAnyInteger)
        .attribute("dim")
        .result("y")
        .traits(kKeepsChannelsLast)
        .infer([](const InferContext& c) {
          require_rank(c, 1, 1, "the index");
          ir::Type y{c.operand(0).dtype, c.operand(0).shape};
          y.shape[dimension(c, "dim", y.shape.size())] = c.operand(1).shape[0];
          return std::vector<ir::Type>{y};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("index_add", {g.zeros(g.operand_type(0)), g.operand(1), g.upstream()},
                        {{"dim", g.attributes().integer("dim")}}));
        })
        .reference([](ReferenceCall& call) {
          for_each_selected(call.operand(0).type.shape, call.operand(1), call.attributes.integer("dim"),
                            "index_select", [&](int64_t slice, int64_t element) {
                              call.result().values[slice] = call.operand(0).values[element];
                            });
        })
        .work([](const ir::Op& op) {
          const int64_t rows = op.operand(1)->type().elements();
          const int64_t row = op.result()->type().elements() / std::max<int64_t>(rows, 1);
          return std::vector{gather_from(op.operand(0)->type(), rows, row)};
        })
        .from_aten({"index_select"}, import_index_select)
        .from_aten({"take"}, import_take)
        .from_aten({"index.Tensor"}, import_index)
        .samples({{{f32({4, 3}), i32({6})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({2, 4, 3}), i32({2})}, {{"dim", int64_t{1}}}, -1, 1, {{1, {0, 3}}}},
                  {{i32({5}), i32({3})}, {{"dim", int64_t{0}}}, -5, 5, {{1, {0, 4}}}}});

const OpRegistration index_add =
    define_op("index_add", "indexing")
        .doc(
            "x with the slices of src along dim added at the numbers of index [n]; equal numbers add up in "
            "order.")
        .operand("x", kNumber)
        .operand("index", kAnyInteger)
        .operand("src", kNumber)
        .attribute("dim")
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 2);
          require_rank(c, 1, 1, "the index");
          const ir::Type& x = c.operand(0);
          Shape expected = x.shape;
          expected[dimension(c, "dim", x.shape.size())] = c.operand(1).shape[0];
          if (c.operand(2).shape != expected) {
            shape_error(
                fmt::format("the source {} must be {}", to_string(c.operand(2).shape), to_string(expected)));
          }
          return std::vector<ir::Type>{{x.dtype, x.shape}};
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.upstream());
          if (g.needs(2)) {
            g.set(2, g.op("index_select", {g.upstream(), g.operand(1)},
                          {{"dim", g.attributes().integer("dim")}}));
          }
        })
        .reference([](ReferenceCall& call) {
          call.result().values = call.operand(0).values;
          for_each_selected(call.operand(0).type.shape, call.operand(1), call.attributes.integer("dim"),
                            "index_add", [&](int64_t slice, int64_t element) {
                              call.result().values[element] += call.operand(2).values[slice];
                            });
        })
        .work(updated_slices)
        .from_aten({"index_add"}, import_index_add)
        .samples({{{f32({4, 3}), i32({6}), f32({6, 3})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({2, 4, 3}), i32({2}), f32({2, 2, 3})}, {{"dim", int64_t{1}}}, -1, 1, {{1, {0, 3}}}}});

}  // namespace
}  // namespace ipu::ops
