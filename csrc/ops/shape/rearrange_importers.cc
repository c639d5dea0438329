// Importers made of reshapes, slices and transposes alone or with one product: pixel_shuffle,
// repeat_interleave, glu, prelu, bilinear, diagonal.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// [..., C r r, H, W] to [..., C, H r, W r].
void import_pixel_shuffle(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape& shape = x->type().shape;
  const int64_t r = call.integer("upscale_factor");
  const int64_t h = shape[shape.size() - 2], w = shape[shape.size() - 1],
                c = shape[shape.size() - 3] / (r * r);
  const int64_t batch = x->type().elements() / std::max<int64_t>(1, c * r * r * h * w);
  ir::Value* y = transposed(call, reshaped(call, x, {batch, c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

// [..., C, H r, W r] to [..., C r r, H, W].
void import_pixel_unshuffle(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape& shape = x->type().shape;
  const int64_t r = call.integer("downscale_factor");
  const int64_t h = shape[shape.size() - 2] / r, w = shape[shape.size() - 1] / r, c = shape[shape.size() - 3];
  const int64_t batch = x->type().elements() / std::max<int64_t>(1, c * r * r * h * w);
  ir::Value* y = transposed(call, reshaped(call, x, {batch, c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

// Channels [groups, C / groups] become [C / groups, groups].
void import_channel_shuffle(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape& shape = x->type().shape;
  const int64_t groups = call.integer("groups"), channels = shape[1];
  const int64_t rest = x->type().elements() / std::max<int64_t>(1, shape[0] * channels);
  ir::Value* y =
      transposed(call, reshaped(call, x, {shape[0], groups, channels / groups, rest}), {0, 2, 1, 3});
  call.set_result(0, reshaped(call, y, shape));
}

// Sum of the diagonal.
void import_trace(AtenImportCall& call) {
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  const Shape& shape = x->type().shape;
  const int64_t length = std::min(shape[0], shape[1]);
  ir::Value* diagonal =
      sliced(call, reshaped(call, x, {x->type().elements()}), 0, 0, length, length == 0 ? 1 : shape[1] + 1);
  call.set_result(
      0, call.op("reduce_sum", {diagonal}, {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}}));
}

// Every element `repeats` times in a row.
void import_repeat_interleave(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t repeats = call.integer("repeats");
  if (!call.has("dim")) x = reshaped(call, x, {x->type().elements()});
  if (x->type().shape.empty()) x = reshaped(call, x, {1});
  const int64_t dim = call.has("dim") ? normalize_dim(call.integer("dim"), x->type().shape.size()) : 0;
  Shape spread = x->type().shape, grown = spread;
  spread.insert(spread.begin() + dim + 1, 1);
  grown.insert(grown.begin() + dim + 1, repeats);
  call.set_result(
      0, reshaped(call, expanded(call, reshaped(call, x, spread), grown), call.result_type(0).shape));
}

void import_glu(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : -1, x->type().shape.size());
  const int64_t half = x->type().shape[dim] / 2;
  if (half * 2 != x->type().shape[dim]) call.unsupported("the halved dimension must be even");
  ir::Value* gate = call.op("sigmoid", {sliced(call, x, dim, half, half)});
  call.set_result(0, call.op("mul", {sliced(call, x, dim, 0, half), gate}));
}

void import_prelu(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *weight = call.tensor("weight");
  Shape shape(x->type().shape.size(), 1);
  if (shape.size() >= 2) shape[1] = weight->type().elements();
  weight = reshaped(call, weight, shape);
  ir::Value* positive = call.op("greater", {x, call.builder().scalar(x->type().dtype, 0.0)});
  call.set_result(0, call.op("where", {positive, x, call.op("mul", {x, weight})}));
}

// y[..., o] = sum over i, j of x1[..., i] * weight[o, i, j] * x2[..., j]: one product for all i and o, then a
// sum.
void import_bilinear(AtenImportCall& call) {
  ir::Value *a = call.tensor("input1"), *b = call.tensor("input2"), *weight = call.tensor("weight");
  const int64_t outputs = weight->type().shape[0], n = weight->type().shape[1], m = weight->type().shape[2];
  const int64_t rows = a->type().elements() / std::max<int64_t>(1, n);
  ir::Value* inner =
      call.op("linear", {reshaped(call, b, {rows, m}), reshaped(call, weight, {outputs * n, m})});
  ir::Value* weighted =
      call.op("mul", {reshaped(call, inner, {rows, outputs, n}), reshaped(call, a, {rows, 1, n})});
  ir::Value* y = call.op("reduce_sum", {weighted}, {{"dims", Shape{2}}, {"keep_dims", false}});
  if (call.has("bias")) y = call.op("add", {y, call.tensor("bias")});
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

// In the flattened last two dimensions the diagonal is every (columns + 1)-th element.
void import_diagonal(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const auto rank = x->type().shape.size();
  const int64_t offset = call.has("offset") ? call.integer("offset") : 0;
  const int64_t row = normalize_dim(call.has("dim1") ? call.integer("dim1") : 0, rank);
  const int64_t column = normalize_dim(call.has("dim2") ? call.integer("dim2") : 1, rank);
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (d != row && d != column) perm.push_back(d);
  }
  perm.push_back(row);
  perm.push_back(column);
  ir::Value* y = transposed(call, x, perm);
  Shape shape = y->type().shape;
  const int64_t columns = shape.back(), elements = shape[rank - 2] * columns,
                length = call.result_type(0).shape.back();
  if (length == 0) {
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("empty slice: the diagonal of {} at offset {} has no elements",
                            ir::to_string(x->type()), offset));
  }
  shape.pop_back();
  shape.back() = elements;
  const int64_t start = offset >= 0 ? offset : -offset * columns;
  call.set_result(
      0, sliced(call, reshaped(call, y, shape), static_cast<int64_t>(rank) - 2, start, length, columns + 1));
}

struct RearrangeImporters {
  RearrangeImporters() {
    register_aten_importer("pixel_shuffle", import_pixel_shuffle);
    register_aten_importer("pixel_unshuffle", import_pixel_unshuffle);
    for (const char* name : {"channel_shuffle", "native_channel_shuffle"})
      register_aten_importer(name, import_channel_shuffle);
    register_aten_importer("trace", import_trace);
    register_aten_importer("repeat_interleave.self_int", import_repeat_interleave);
    register_aten_importer("glu", import_glu);
    register_aten_importer("prelu", import_prelu);
    register_aten_importer("bilinear", import_bilinear);
    register_aten_importer("diagonal", import_diagonal);
  }
};
const RearrangeImporters rearrange_importers;

}  // namespace
}  // namespace ipu::ops
