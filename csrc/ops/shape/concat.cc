// concat: tensors one after the other along a dimension; stack and roll are made of it.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

ir::Type concat_type(const InferContext& c) {
  if (c.operands.empty()) shape_error("needs at least one operand");
  ir::Type y{c.operand(0).dtype, c.operand(0).shape};
  const int64_t dim = dimension(c, "dim", y.shape.size());
  for (int i = 1; i < static_cast<int>(c.operands.size()); ++i) {
    require_same_dtype(c, 0, i);
    const Shape& shape = c.operand(i).shape;
    bool fits = shape.size() == y.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = static_cast<int64_t>(d) == dim || shape[d] == y.shape[d];
    }
    if (!fits) shape_error(fmt::format("operands must agree in all dimensions but {}", dim));
    y.shape[dim] += shape[dim];
  }
  return y;
}

void concat_reference(ReferenceCall& call) {
  const int64_t dim = call.attributes.integer("dim");
  const Split3 whole = split_at(call.result().type.shape, dim);
  int64_t at = 0;
  for (const ReferenceTensor* piece : call.operands) {
    const Split3 part = split_at(piece->type.shape, dim);
    const int64_t run = part.size * part.inner;
    for (int64_t o = 0; o < part.outer; ++o) {
      std::copy_n(piece->values.begin() + o * run, run,
                  call.result().values.begin() + (o * whole.size + at) * whole.inner);
    }
    at += part.size;
  }
}

void concat_gradient(GradientBuilder& g) {
  const int64_t dim = g.attributes().integer("dim");
  int64_t start = 0;
  for (int i = 0; i < g.forward().operand_count(); ++i) {
    const Shape& shape = g.operand_type(i).shape;
    if (g.needs(i)) {
      std::vector<int64_t> starts(shape.size(), 0);
      starts[dim] = start;
      g.set(i, g.op("slice", {g.upstream()},
                    {{"starts", starts}, {"sizes", shape}, {"steps", Shape(shape.size(), 1)}}));
    }
    start += shape[dim];
  }
}

// In place it lies in the memory of all operands, one piece in each.
ir::ViewRule concat_view() {
  ir::ViewRule rule;
  rule.all_operands = true;
  rule.write = [](ir::Builder& builder, const ir::Op& view, int operand, ir::Value* base,
                  ir::Value* contents) {
    const Shape& shape = base->type().shape;
    const int64_t dim = view.attributes.integer("dim");
    std::vector<int64_t> starts(shape.size(), 0);
    for (int i = 0; i < operand; ++i) starts[dim] += view.operand(i)->type().shape[dim];
    return build(builder, "slice", {contents},
                 {{"starts", starts}, {"sizes", shape}, {"steps", Shape(shape.size(), 1)}});
  };
  return rule;
}

// Tensors in the dtype of the result. Empty one-dimensional ones are skipped, as torch does for old programs.
std::vector<ir::Value*> pieces_of(AtenImportCall& call) {
  std::vector<ir::Value*> pieces;
  for (ir::Value* piece : call.tensors("tensors")) {
    if (piece->type().shape == Shape{0} && call.result_type(0).shape.size() != 1) continue;
    pieces.push_back(call.cast(piece, call.result_type(0).dtype));
  }
  if (pieces.empty()) call.unsupported("no tensor with elements");
  return pieces;
}

void import_stack(AtenImportCall& call) {
  const int64_t dim =
      normalize_dim(call.has("dim") ? call.integer("dim") : 0, call.result_type(0).shape.size());
  std::vector<ir::Value*> pieces = pieces_of(call);
  for (ir::Value*& piece : pieces) {
    Shape shape = piece->type().shape;
    shape.insert(shape.begin() + dim, 1);
    piece = reshaped(call, piece, shape);
  }
  call.set_result(0, concatenated(call, pieces, dim));
}

// Elements move up by `shift` and come back in at the front.
ir::Value* rolled(AtenImportCall& call, ir::Value* x, int64_t shift, int64_t dim) {
  const int64_t n = x->type().shape[dim];
  if (n == 0) return x;
  shift = ((shift % n) + n) % n;
  if (shift == 0) return x;
  return concatenated(call, {sliced(call, x, dim, n - shift, shift), sliced(call, x, dim, 0, n - shift)},
                      dim);
}

void import_roll(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const std::vector<int64_t> shifts = call.wide_integers("shifts");  // taken modulo the size
  const std::vector<int64_t> dims = call.has("dims") ? call.integers("dims") : std::vector<int64_t>{};
  if (dims.empty()) {
    if (shifts.size() != 1) call.unsupported("roll without dims and with more than one shift");
    ir::Value* flat = rolled(call, reshaped(call, x, {x->type().elements()}), shifts[0], 0);
    call.set_result(0, reshaped(call, flat, x->type().shape));
    return;
  }
  if (shifts.size() != dims.size()) call.unsupported("as many shifts as dims are needed");
  ir::Value* y = x;
  for (size_t i = 0; i < dims.size(); ++i) {
    y = rolled(call, y, shifts[i], normalize_dim(dims[i], x->type().shape.size()));
  }
  call.set_result(0, y);
}

const OpRegistration concat =
    define_op("concat", "shape")
        .doc("The operands one after the other along dimension dim.")
        .variadic("xs", kAnything)
        .attribute("dim")
        .result("y")
        .traits(kKeepsChannelsLast)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{concat_type(c)}; })
        .gradient(concat_gradient)
        .reference(concat_reference)
        .view(concat_view())
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          for (const int64_t axis : part.axes)
            if (axis != part.axis(0) || axis == part.attributes.integer("dim")) return std::nullopt;
          return part.axis(0);
        })
        .from_aten({"cat", "concat", "concatenate"},
                   [](AtenImportCall& call) {
                     const int64_t dim = call.has("dim") ? call.integer("dim") : 0;
                     call.set_result(0, concatenated(call, pieces_of(call),
                                                     normalize_dim(dim, call.result_type(0).shape.size())));
                   })
        .from_aten({"stack"}, import_stack)
        .from_aten({"roll"}, import_roll)
        .samples({{{ir::Type{DType::kF32, {2, 3}}, ir::Type{DType::kF32, {1, 3}}}, {{"dim", int64_t{0}}}},
                  {{ir::Type{DType::kF32, {2, 1, 2}}, ir::Type{DType::kF32, {2, 3, 2}},
                    ir::Type{DType::kF32, {2, 2, 2}}},
                   {{"dim", int64_t{1}}}},
                  {{ir::Type{DType::kI32, {4}}}, {{"dim", int64_t{0}}}}});

}  // namespace
}  // namespace ipu::ops
