// reshape, and the importers of all operators that keep the order of elements.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

ir::Type reshape_type(const InferContext& c) {
  const Shape& shape = c.attributes.integers("shape");
  per_dimension(c, "shape", shape.size(), 0);
  const int64_t wanted = element_count(shape), given = c.operand(0).elements();
  if (wanted != given) {
    shape_error(fmt::format("shape {} has {} elements, x has {}", to_string(shape), wanted, given));
  }
  return {c.operand(0).dtype, shape};
}

// Sizes, dims and strides arguments are already resolved in the type of the result.
void import_reshape(ImportCall& call) {
  call.set_result(0, reshaped(call, call.tensor("self"), call.result_type(0).shape));
}

// Copies and aliases: every value is immutable here, so they are the value itself.
void import_same(ImportCall& call) { call.set_result(0, call.tensor("self")); }

const OpRegistration reshape =
    define_op("reshape", "shape")
        .doc("The elements of x in row-major order, seen with another shape.")
        .operand("x", kAnything)
        .attribute("shape")
        .result("y")
        .traits(kView)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{reshape_type(c)}; })
        .gradient([](GradientBuilder& g) { g.set(0, g.reshape(g.upstream(), g.operand_type(0).shape)); })
        .reference([](ReferenceCall& call) { call.result().values = call.operand(0).values; })
        .kernels([](const ir::Op& op) {
          return std::vector{strided_copy(0, contiguous_strides(op.result()->type().shape))};
        })
        .from_aten({"view", "_unsafe_view", "reshape", "_reshape_alias", "view_as", "reshape_as",
                    "flatten.using_ints", "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims",
                    "unsqueeze", "ravel"},
                   import_reshape)
        .from_aten({"clone", "contiguous", "alias", "lift_fresh", "lift", "lift_fresh_copy"}, import_same)
        .samples({{{ir::Type{DType::kF32, {2, 6}}}, {{"shape", Shape{3, 4}}}},
                  {{ir::Type{DType::kF32, {1}}}, {{"shape", Shape{}}}},
                  {{ir::Type{DType::kI32, {4, 1, 3}}}, {{"shape", Shape{12}}}}});

}  // namespace
}  // namespace ipu::ops
