// RoiAlign with mean pooling. Bilinear interpolation is separable, and its weights are those of a hat over the rows (or
// columns) of the image, so each region is a product of two small matrices with the image. Attributes: spatialScale,
// samplingRatio, alignedHeight, alignedWidth.
#include <fmt/core.h>

#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

struct Axis {
  int64_t size, bins;  // of the image; of the result
  int64_t low, high;   // columns of the regions
};

// How much of each row of the image goes into each bin of each region: [R, bins, size].
ir::Value* weights_of(LowerCall& c, ir::Value* rois, const Axis& axis, int64_t samples) {
  const int64_t count = rois->type().shape[0], points = axis.bins * samples;
  const auto number = [&](double value) { return c.scalar(DType::kF32, value); };
  const auto column = [&](int64_t i) {
    return c.build("slice", {rois},
                   {{"starts", Shape{0, i}}, {"sizes", Shape{count, 1}}, {"steps", Shape{1, 1}}});
  };
  ir::Value* low = column(axis.low);
  ir::Value* length = c.build("maximum", {c.build("sub", {column(axis.high), low}), number(1.0)});
  // Samples lie in the middle of equal parts of a bin.
  ir::Value* middle = c.build("iota", {},
                              {{"shape", Shape{1, points}},
                               {"dim", int64_t{1}},
                               {"dtype", DType::kF32},
                               {"start", 0.5},
                               {"step", 1.0}});
  ir::Value* part = c.build("div", {length, number(static_cast<double>(points))});
  ir::Value* place = c.build("add", {low, c.build("mul", {part, middle})});
  ir::Value* seen =
      c.build("logical_and", {c.build("greater_equal", {place, number(-1.0)}),
                              c.build("less_equal", {place, number(static_cast<double>(axis.size))})});
  place = c.build("clamp", {place}, {{"min", 0.0}, {"max", static_cast<double>(axis.size - 1)}});
  ir::Value* row =
      c.build("iota", {}, {{"shape", Shape{1, 1, axis.size}}, {"dim", int64_t{2}}, {"dtype", DType::kF32}});
  ir::Value* distance = c.build("abs", {c.build("sub", {c.reshape(place, {count, points, 1}), row})});
  ir::Value* hat = c.build("relu", {c.build("sub", {number(1.0), distance})});
  hat = c.build("mul", {hat, c.cast(c.reshape(seen, {count, points, 1}), DType::kF32)});
  return c.reduce("reduce_mean", c.reshape(hat, {count, axis.bins, samples, axis.size}), {2}, false);
}

void roi_align(LowerCall& c) {
  const Shape image = c.shape(0), regions = c.shape(1);
  if (image.size() != 4) c.refuse("the data must have four dimensions, [N, C, H, W]");
  if (regions.size() != 2 || regions[1] != 4) c.refuse("the regions must have two dimensions, [R, 4]");
  if (c.shape(2) != Shape{regions[0]}) c.refuse("there must be one batch index for each region");
  const int64_t samples = c.attributes().integer("samplingRatio");
  const int64_t height = c.attributes().integer("alignedHeight"),
                width = c.attributes().integer("alignedWidth");
  if (samples < 1)
    c.refuse(
        fmt::format("sampling_ratio {} depends on values; give the number of samples, 1 or more", samples));
  if (height < 1 || width < 1)
    c.refuse(fmt::format("the output size [{}, {}] must be positive", height, width));
  ir::Value* rois = c.build(
      "mul", {c.cast(c.input(1), DType::kF32), c.scalar(DType::kF32, c.attributes().real("spatialScale"))});
  ir::Value* rows = weights_of(c, rois, {image[2], height, 1, 3}, samples);
  ir::Value* columns = weights_of(c, rois, {image[3], width, 0, 2}, samples);
  const int64_t count = regions[0], channels = image[1];
  ir::Value* x = c.build("index_select", {c.cast(c.input(0), DType::kF32), c.cast(c.input(2), DType::kI32)},
                         {{"dim", int64_t{0}}});
  x = c.build("matmul", {c.reshape(x, {count, channels * image[2], image[3]}), columns}, {{"trans_b", true}});
  x = c.transpose(c.reshape(x, {count, channels, image[2], width}), {0, 2, 1, 3});
  x = c.build("matmul", {rows, c.reshape(x, {count, image[2], channels * width})});
  x = c.transpose(c.reshape(x, {count, height, channels, width}), {0, 2, 1, 3});
  c.set_output(0, c.cast(x, c.type(0).dtype));
}

const KindRegistration roi_align_kind =
    define_kind("RoiAlign").id("ai.onnx", 10).gradient({in(0), in(1), in(2)}).lower(roi_align);

const CreatorRegistration roi_align_creators = {{
    {"RoiAlignOp", "opid settings spatialScale:real samplingRatio:int alignedHeight:int alignedWidth:int"},
}};
const FunctionRegistration roi_align_functions = {{
    {"RoiAlign",
     "roi_align(t, rois, batch_index, output_size:pair, spatial_scale:float>spatialScale, "
     "sampling_ratio:whole>samplingRatio) -> roi_align_out; "
     "alignedHeight=int(output_size[0]), alignedWidth=int(output_size[1])",
     R"(Mean of bilinear samples in each bin of each region of interest, without a shift by half a pixel.

Args:
    t: (N, C, H, W), floating.
    rois: (R, 4), floating: x1, y1, x2, y2 in coordinates of the original image.
    batch_index: (R,), integers: the image of each region.
    output_size: bins along height and width.
    spatial_scale: from coordinates of the original image to those of `t`.
    sampling_ratio: samples along height and width of a bin, 1 or more.

Returns:
    (R, C, output_size[0], output_size[1]), in the dtype of `t`.

Raises:
    ValueError: the operands are on different IPUs or tile sets.
    popart.popart_exception: shapes do not fit.)",
     "y = ops.roi_align(x, rois, batch_index, (7, 7), 0.25, 2)"},
}};

}  // namespace
}  // namespace ipu::popxl
