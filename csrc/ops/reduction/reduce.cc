// reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_any, reduce_all: one family, one type
// rule. Their importers are in reduction_importers.cc.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep_dims) {
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool gone = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!gone)
      result.push_back(shape[d]);
    else if (keep_dims)
      result.push_back(1);
  }
  return result;
}

std::vector<ir::Type> reduce_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const auto& dims = dimensions(c, "dims", x.shape.size());
  const bool needs_elements = c.kind == "reduce_max" || c.kind == "reduce_min";
  for (const int64_t d : dims) {
    if (needs_elements && x.shape[d] == 0) shape_error(fmt::format("no elements along dimension {}", d));
  }
  return {{x.dtype, reduced_shape(x.shape, dims, c.attributes.boolean("keep_dims"))}};
}

// Folds elements of operand 0 into the result, in row-major order of the operand.
template <typename Combine>
void fold(ReferenceCall& call, double start, Combine combine) {
  const Shape& shape = call.operand(0).type.shape;
  const Shape kept = reduced_shape(shape, call.attributes.integers("dims"), true);
  std::vector<double>& result = call.result().values;
  std::fill(result.begin(), result.end(), start);
  const std::vector<double>& x = call.operand(0).values;
  for_each_offset(shape, broadcast_strides(kept, shape), 0, [&](int64_t linear, int64_t offset) {
    result[offset] = combine(result[offset], x[linear]);
  });
}

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }  // NaN wins
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t reduced_count(const Shape& shape, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= shape[d];
  return count;
}

// A value of the result's shape, with the reduced dimensions back as size 1: broadcasts against the operand.
ir::Value* with_kept_dims(GradientBuilder& g, ir::Value* value) {
  return g.reshape(value, reduced_shape(g.operand_type(0).shape, g.attributes().integers("dims"), true));
}

ir::Value* spread(GradientBuilder& g, ir::Value* value) {
  return g.expand(with_kept_dims(g, value), g.operand_type(0).shape);
}

// The gradient is shared evenly by all elements equal to the result.
void extreme_gradient(GradientBuilder& g) {
  const auto& dims = g.attributes().integers("dims");
  ir::Value* hits =
      g.cast(g.op("equal", {g.operand(0), with_kept_dims(g, g.result())}), g.operand_type(0).dtype);
  ir::Value* share = g.div(with_kept_dims(g, g.upstream()), g.sum(hits, dims, true));
  g.set(0, g.mul(hits, share));
}

// dy * (product of the other elements), right also where elements are zero: with one zero only that element
// has a gradient, with two nobody has.
void product_gradient(GradientBuilder& g) {
  const auto& dims = g.attributes().integers("dims");
  ir::Value* x = g.operand(0);
  const DType dtype = x->type().dtype;
  ir::Value* is_zero = g.op("equal", {x, g.scalar_like(x, 0.0)});
  ir::Value* zeros = g.sum(g.cast(is_zero, dtype), dims, true);
  ir::Value* safe = g.where(is_zero, g.scalar_like(x, 1.0), x);
  ir::Value* product = g.op("reduce_prod", {safe}, {{"dims", dims}, {"keep_dims", true}});
  ir::Value* nothing = g.scalar_like(x, 0.0);
  ir::Value* at_zero = g.where(g.op("equal", {zeros, g.scalar_like(x, 1.0)}), product, nothing);
  ir::Value* elsewhere =
      g.where(g.op("equal", {zeros, g.scalar_like(x, 0.0)}), g.div(product, safe), nothing);
  g.set(0, g.mul(with_kept_dims(g, g.upstream()), g.where(is_zero, at_zero, elsewhere)));
}

// Lines along other dimensions than those that go.
std::optional<int64_t> reduction_batch(BatchPart& part) {
  int64_t axis = part.axis(0);
  const int64_t cut = axis;
  for (const int64_t dim : part.attributes.integers("dims")) {
    if (dim == cut) return std::nullopt;
    if (dim < cut && !part.attributes.boolean("keep_dims")) --axis;
  }
  return axis;
}

OpDefBuilder reduction(std::string name, DTypeSet dtypes, std::string doc) {
  OpDefBuilder builder = define_op(std::move(name), "reduction");
  builder.doc(std::move(doc))
      .operand("x", dtypes)
      .attribute("dims")
      .attribute("keep_dims", false)
      .result("y")
      .infer(reduce_type)
      .batch(reduction_batch)
      .work([](const ir::Op& op) -> std::vector<target::Work> {
        const ir::Type& x = op.operand(0)->type();
        const target::Work reduction = reduction_of(x, op.result()->type().elements());
        if (x.dtype == DType::kBool) return {pass_over(x, {"AnyOrAll"}), reduction};
        return {reduction};
      });
  const DType dtype = (dtypes & kAnyFloat) != 0 ? DType::kF32 : DType::kBool;
  builder.samples({{{ir::Type{dtype, {3, 4}}}, {{"dims", Shape{0, 1}}}},
                   {{ir::Type{dtype, {3, 4}}}, {{"dims", Shape{1}}, {"keep_dims", true}}},
                   {{ir::Type{dtype, {2, 3, 2}}}, {{"dims", Shape{0, 2}}}},
                   {{ir::Type{dtype, {2, 3}}}, {{"dims", Shape{}}}}});
  return builder;
}

const OpRegistration reduce_sum =
    reduction("reduce_sum", kNumber, "Sum over dims.")
        .gradient([](GradientBuilder& g) { g.set(0, spread(g, g.upstream())); })
        .reference([](ReferenceCall& call) { fold(call, 0.0, [](double a, double b) { return a + b; }); });

const OpRegistration reduce_mean =
    reduction("reduce_mean", kAnyFloat, "Mean over dims.")
        .gradient([](GradientBuilder& g) {
          const int64_t count = reduced_count(g.operand_type(0).shape, g.attributes().integers("dims"));
          g.set(0, spread(g, g.scale(g.upstream(), 1.0 / static_cast<double>(count))));
        })
        .reference([](ReferenceCall& call) {
          fold(call, 0.0, [](double a, double b) { return a + b; });
          const auto count = static_cast<double>(
              reduced_count(call.operand(0).type.shape, call.attributes.integers("dims")));
          for (double& v : call.result().values) v /= count;
        });

const OpRegistration reduce_max =
    reduction("reduce_max", kNumber,
              "Largest element over dims; NaN if there is one. Ties share the gradient evenly.")
        .gradient(extreme_gradient)
        .reference([](ReferenceCall& call) { fold(call, -kInfinity, larger); });

const OpRegistration reduce_min =
    reduction("reduce_min", kNumber,
              "Smallest element over dims; NaN if there is one. Ties share the gradient evenly.")
        .gradient(extreme_gradient)
        .reference([](ReferenceCall& call) { fold(call, kInfinity, smaller); });

const OpRegistration reduce_prod =
    reduction("reduce_prod", kNumber, "Product over dims.")
        .gradient(product_gradient)
        .reference([](ReferenceCall& call) { fold(call, 1.0, [](double a, double b) { return a * b; }); });

const OpRegistration reduce_any =
    reduction("reduce_any", kBoolean, "True where any element over dims is.")
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          fold(call, 0.0, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; });
        });

const OpRegistration reduce_all =
    reduction("reduce_all", kBoolean, "True where all elements over dims are.")
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          fold(call, 1.0, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
        });

}  // namespace
}  // namespace ipu::ops
