// Importers that take windows out of a tensor and add them back: unfold along one dimension, im2col and
// col2im. The places are known at compile time: one index_select or index_add.
#include <fmt/core.h>

#include <limits>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

ir::Value* indices(AtenImportCall& call, const std::vector<int32_t>& values) {
  return call.builder().constant(ir::make_constant(DType::kI32, {std::ssize(values)}, values.data()));
}

// Tensor.unfold: the dimension becomes that of the windows, their elements a new last one.
void import_unfold(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape result = call.result_type(0).shape;
  if (x->type().shape.empty()) return call.set_result(0, reshaped(call, x, result));
  const int64_t dim = normalize_dim(call.integer("dimension"), x->type().shape.size());
  const int64_t size = call.integer("size"), step = call.integer("step"), windows = result[dim];
  Shape split = x->type().shape;
  split[dim] = windows;
  split.insert(split.begin() + dim + 1, size);
  ir::Value* y = nullptr;
  if (step >= size && windows * step <= x->type().shape[dim]) {  // apart: a view, which can be written
    Shape whole = split;
    whole[dim + 1] = step;
    y = sliced(call, reshaped(call, sliced(call, x, dim, 0, windows * step), whole), dim + 1, 0, size);
  } else {
    std::vector<int32_t> places;
    for (int64_t w = 0; w < windows; ++w)
      for (int64_t k = 0; k < size; ++k) places.push_back(static_cast<int32_t>(w * step + k));
    y = call.op("index_select", {x, indices(call, places)}, {{"dim", dim}});
  }
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < std::ssize(split); ++d)
    if (d != dim + 1) perm.push_back(d);
  perm.push_back(dim + 1);
  call.set_result(0, transposed(call, reshaped(call, y, split), perm));
}

// The windows of an image with padding, as places in its flattened rows and columns: filter tap first.
struct Columns {
  int64_t height, width;  // with padding
  std::vector<int64_t> padding;
  std::vector<int32_t> places;
};

Columns read_columns(AtenImportCall& call, int64_t height, int64_t width) {
  const std::vector<int64_t> kernel = expand_to_rank(call, "kernel_size", 2),
                             dilation = expand_to_rank(call, "dilation", 2),
                             stride = expand_to_rank(call, "stride", 2);
  Columns c{0, 0, expand_to_rank(call, "padding", 2), {}};
  c.height = height + 2 * c.padding[0];
  c.width = width + 2 * c.padding[1];
  const int64_t rows = (c.height - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1,
                columns = (c.width - dilation[1] * (kernel[1] - 1) - 1) / stride[1] + 1;
  // Places are 32-bit indices into the padded image, and one is made for each element of the columns.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t taps = 0, count = 0;
  if (c.width > kMost / std::max<int64_t>(1, c.height) ||
      __builtin_mul_overflow(kernel[0], kernel[1], &taps) ||
      __builtin_mul_overflow(taps, rows * columns, &count) || count > kMost) {
    shape_error(fmt::format("windows of {} over {} with padding: more places than 32 bits can number",
                            to_string(kernel), to_string(Shape{c.height, c.width})));
  }
  for (int64_t ky = 0; ky < kernel[0]; ++ky)
    for (int64_t kx = 0; kx < kernel[1]; ++kx)
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x)
          c.places.push_back(static_cast<int32_t>((y * stride[0] + ky * dilation[0]) * c.width +
                                                  x * stride[1] + kx * dilation[1]));
  return c;
}

void import_im2col(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  Shape shape = x->type().shape;
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  const Columns c = read_columns(call, shape[2], shape[3]);
  const std::vector<int64_t> pad{0, 0, c.padding[0], c.padding[1]};
  x = call.op("pad", {reshaped(call, x, shape)}, {{"low", pad}, {"high", pad}, {"value", 0.0}});
  x = reshaped(call, x, {shape[0], shape[1], c.height * c.width});
  ir::Value* y = call.op("index_select", {x, indices(call, c.places)}, {{"dim", int64_t{2}}});
  call.set_result(0, reshaped(call, y, call.result_type(0).shape));
}

void import_col2im(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape result = call.result_type(0).shape;
  const int64_t height = result[result.size() - 2], width = result.back();
  const int64_t images = element_count(result) / std::max<int64_t>(height * width, 1);
  const Columns c = read_columns(call, height, width);
  ir::Value* zeros = call.builder().splat({x->type().dtype, {images, c.height * c.width}}, 0.0);
  ir::Value* y = call.op("index_add",
                         {zeros, indices(call, c.places), reshaped(call, x, {images, std::ssize(c.places)})},
                         {{"dim", int64_t{1}}});
  y = reshaped(call, y, {images, c.height, c.width});
  y = sliced(call, sliced(call, y, 1, c.padding[0], height), 2, c.padding[1], width);
  call.set_result(0, reshaped(call, y, result));
}

struct WindowImporters {
  WindowImporters() {
    register_aten_importer("unfold", import_unfold);
    register_aten_importer("im2col", import_im2col);
    register_aten_importer("col2im", import_col2im);
  }
};
const WindowImporters window_importers;

}  // namespace
}  // namespace ipu::ops
