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

// Strides of a view seen with another shape, if there are any: runs of source dimensions that lie one behind
// the other are split or joined at will.
std::optional<Strides> reshaped_strides(const ir::StridedView& from, const Shape& to) {
  if (element_count(to) == 0) return contiguous_strides(to);
  Strides strides(to.size(), 0);
  size_t done = 0;  // dimensions of `to` that have strides
  int64_t chunk = 1, chunk_stride = 1;
  bool open = false;
  // From the innermost: source dimensions are gathered into a chunk until the next one does not continue it.
  int64_t filled = 1;
  for (size_t i = from.shape.size(); i-- > 0;) {
    if (!open) {
      chunk = 1;
      chunk_stride = from.strides[i];
      filled = 1;
      open = true;
    }
    chunk *= from.shape[i];
    size_t outer = i;
    while (outer > 0 && from.shape[outer - 1] == 1) --outer;
    bool last = outer == 0;
    if (from.shape[i] == 1 && chunk == 1 && !last) {  // a leading 1 says nothing about strides
      open = false;
      continue;
    }
    if (!last && from.strides[outer - 1] == chunk * chunk_stride) continue;
    while (done < to.size() && (filled < chunk || to[to.size() - 1 - done] == 1)) {
      size_t d = to.size() - 1 - done;
      strides[d] = filled * chunk_stride;
      filled *= to[d];
      ++done;
    }
    if (filled != chunk) return std::nullopt;
    open = false;
    if (last) break;
  }
  for (; done < to.size(); ++done) {
    if (to[to.size() - 1 - done] != 1) return std::nullopt;
    strides[to.size() - 1 - done] = 1;
  }
  return strides;
}

ir::ViewRule reshape_view() {
  ir::ViewRule rule;
  rule.keeps_order = true;
  rule.write = [](ir::Builder& builder, const ir::Op&, int, ir::Value* base, ir::Value* contents) {
    return build(builder, "reshape", {contents}, {{"shape", base->type().shape}});
  };
  rule.strides = [](const ir::Op& view, const ir::StridedView& operand) -> std::optional<ir::StridedView> {
    const Shape& to = view.result()->type().shape;
    if (operand.strides == contiguous_strides(operand.shape))
      return ir::StridedView{operand.offset, to, contiguous_strides(to)};
    std::optional<Strides> strides = reshaped_strides(operand, to);
    if (!strides) return std::nullopt;
    return ir::StridedView{operand.offset, to, std::move(*strides)};
  };
  return rule;
}

// Parts are the same elements where as many elements lie before the two dimensions, and as many from there on.
std::optional<int64_t> reshape_batch(BatchPart& part) {
  const Shape &from = part.shape(0), &to = part.op.result()->type().shape;
  int64_t before = 1, outer = 1;
  for (int64_t d = 0; d < part.axis(0); ++d) before *= from[static_cast<size_t>(d)];
  for (size_t d = 0; d < to.size(); outer *= to[d++]) {
    if (outer != before || to[d] == 1 || to[d] % part.parts != 0) continue;
    std::vector<int64_t> shape = to;
    shape[d] /= part.parts;
    part.attributes.set("shape", shape);
    return static_cast<int64_t>(d);
  }
  return std::nullopt;
}

// Sizes, dims and strides arguments are already resolved in the type of the result.
void import_reshape(AtenImportCall& call) {
  call.set_result(0, reshaped(call, call.tensor("self"), call.result_type(0).shape));
}

// Copies and aliases: every value is immutable here, so they are the value itself.
void import_same(AtenImportCall& call) { call.set_result(0, call.tensor("self")); }

const OpRegistration reshape =
    define_op("reshape", "shape")
        .doc("The elements of x in row-major order, seen with another shape.")
        .operand("x", kAnything)
        .attribute("shape")
        .result("y")
        .view(reshape_view())
        .batch(reshape_batch)
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
