// index_copy: whole slices replaced by number along one dimension; how the gradient of a loop keeps a value of
// each iteration (autodiff/regions.h). Its kernel works in place, so a write costs what is written.
#include <fmt/core.h>

#include "ops/definition/sample_types.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> index_copy_type(const InferContext& c) {
  require_same_dtype(c, 0, 2);
  require_rank(c, 1, 1, "the index");
  const ir::Type& x = c.operand(0);
  Shape expected = x.shape;
  expected[dimension(c, "dim", x.shape.size())] = c.operand(1).shape[0];
  if (c.operand(2).shape != expected)
    shape_error(fmt::format("the source {} must be {}", to_string(c.operand(2).shape), to_string(expected)));
  return {{x.dtype, x.shape}};
}

void index_copy_reference(ReferenceCall& call) {
  const ReferenceTensor& index = call.operand(1);
  const Split3 s = split_at(call.operand(0).type.shape, call.attributes.integer("dim"));
  std::vector<double>& result = call.result().values;
  result = call.operand(0).values;
  const std::vector<double>& source = call.operand(2).values;
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t k = 0; k < index.size(); ++k) {
      const int64_t row = checked_index(index, k, s.size, "index_copy");
      std::copy_n(source.begin() + (o * index.size() + k) * s.inner, s.inner,
                  result.begin() + (o * s.size + row) * s.inner);
    }
  }
}

// What was replaced has no part in the result: neither slices of x, nor slices of src that a later one of the
// same number replaced.
void index_copy_gradient(GradientBuilder& g) {
  const Attributes dim{{"dim", g.attributes().integer("dim")}};
  const Attributes first{{"dim", int64_t{0}}};
  ir::Value* index = g.operand(1);
  if (g.needs(0)) g.set(0, g.op("index_copy", {g.upstream(), index, g.zeros(g.operand_type(2))}, dim));
  if (!g.needs(2)) return;
  ir::Value* slices = g.op("index_select", {g.upstream(), index}, dim);
  const int64_t count = g.operand_type(1).shape[0];
  if (count > 1) {
    const int64_t size = g.operand_type(0).shape[g.attributes().integer("dim")];
    ir::Value* numbers = g.op("iota", {},
                              {{"shape", Shape{count}},
                               {"dim", int64_t{0}},
                               {"dtype", DType::kI32},
                               {"start", 0.0},
                               {"step", 1.0}});
    ir::Value* writers = g.op("index_copy", {g.zeros({DType::kI32, {size}}), index, numbers}, first);
    ir::Value* stays = g.op("equal", {g.op("index_select", {writers, index}, first), numbers});
    Shape along(g.operand_type(2).shape.size(), 1);
    along[static_cast<size_t>(g.attributes().integer("dim"))] = count;
    slices = g.where(g.op("reshape", {stays}, {{"shape", along}}), slices, g.zeros(g.operand_type(2)));
  }
  g.set(2, slices);
}

const OpRegistration index_copy =
    define_op("index_copy", "indexing")
        .doc(
            "x with the slices along dim at the numbers of index [n] replaced by those of src; of equal numbers "
            "the last stays.")
        .operand("x", kAnything)
        .operand("index", kAnyInteger)
        .operand("src", kAnything)
        .attribute("dim")
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer(index_copy_type)
        .gradient(index_copy_gradient)
        .reference(index_copy_reference)
        .work(updated_slices)
        .samples({{{f32({4, 3}), i32({6}), f32({6, 3})}, {{"dim", int64_t{0}}}, -1, 1, {{1, {0, 3}}}},
                  {{f32({2, 4, 3}), i32({1}), f32({2, 1, 3})}, {{"dim", int64_t{1}}}, -1, 1, {{1, {0, 3}}}},
                  {{i32({5}), i32({1}), i32({1})}, {{"dim", int64_t{0}}}, -9, 9, {{1, {0, 4}}}}});

}  // namespace
}  // namespace ipu::ops
