// Convolutions and transposed ones in one to three dimensions. Attributes: those of the window (sliding_window.h),
// group, partialsTypes and availableMemoryProportions (lists; the first entry counts), enableConvDithering (no
// meaning here); of Conv inDilations; of ConvTranspose outputPadding and outputShape. Input 2, of float8 operands: the
// result is f16, times 2 to the power of it.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/float8.h"
#include "frontends/popxl/kinds/parts.h"
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/kinds/sliding_window.h"
#include "frontends/popxl/published.h"
#include "ops/convolution/volume.h"

namespace ipu::popxl {
namespace {

using Sizes = std::vector<int64_t>;

Sizes spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

void follow_options(LowerCall& c) {
  const Attributes& attributes = c.attributes();
  if (const Attribute* types = attributes.find("partialsTypes"))
    if (const auto* list = std::get_if<std::vector<std::string>>(types); list != nullptr && !list->empty())
      c.builder().settings.outline.set("multi_conv_partials", list->front());
  const std::vector<double> proportions = reals_or_empty(attributes, "availableMemoryProportions");
  if (!proportions.empty()) c.builder().settings.available_memory = proportions[0];
}

// Data and weights, of one rank.
Factors operands_of(LowerCall& c) {
  const size_t rank = c.shape(0).size();
  if (rank < 3 || rank > 5 || c.shape(1).size() != rank)
    c.refuse("data and weights must both have one to three spatial dimensions behind the first two");
  return factors_of(c);
}

void convolve(LowerCall& c) {
  follow_options(c);
  auto [x, weight] = operands_of(c);
  x = with_zeros_between(c, x, integers_or_empty(c.attributes(), "inDilations"));
  const int64_t groups = c.attributes().integer("group", 1);
  const Shape &data = x->type().shape, &kernel = weight->type().shape;
  if (groups < 1 || kernel[1] * groups != data[1] || kernel[0] % groups != 0)
    c.refuse(fmt::format("{} channels and weights of {} do not fit groups={}", data[1],
                         ipu::to_string(kernel), groups));
  ops::Window window = window_of(c, spatial(kernel), std::span(data).subspan(2));
  Sizes low(window.rank()), high(window.rank());
  bool cuts = false;
  for (size_t d = 0; d < window.rank(); ++d) {
    low[d] = std::min<int64_t>(0, window.padding_low[d]);
    high[d] = std::min<int64_t>(0, window.padding_high[d]);
    window.padding_low[d] -= low[d];
    window.padding_high[d] -= high[d];
    cuts = cuts || low[d] < 0 || high[d] < 0;
  }
  if (cuts) x = padded_or_cut(c, x, low, high);
  Attributes attributes = attributes_of(window);
  attributes.set("groups", groups);
  PartsCall parts(c);
  ir::Value* y = window.rank() == 3 ? ops::volume_convolution(parts, x, weight, nullptr, attributes)
                                    : c.build("conv", {x, weight}, attributes);
  c.set_output(0, product_of_factors(c, y));
}

// Sizes of the result of a transposed convolution, and where it begins in all that the kernels reach.
struct Placement {
  Sizes begin, size;
};
Placement placement_of(LowerCall& c, const Sizes& sizes, const Sizes& kernel, const Sizes& strides) {
  const size_t rank = kernel.size();
  const Sizes pads = entries(c, "pads", 2 * rank, 0), extra = entries(c, "outputPadding", rank, 0);
  const std::string type = c.attributes().text("padType", "not_set");
  Sizes given = integers_or_empty(c.attributes(), "outputShape");
  if (given.size() == rank + 2) given.erase(given.begin(), given.begin() + 2);
  if (!given.empty() && given.size() != rank)
    c.refuse(
        fmt::format("output_shape {} must have {} or {} entries", ipu::to_string(given), rank, rank + 2));
  if (!given.empty() && type == "valid") c.refuse("output_shape is not offered with pad_type=\"valid\"");
  Placement placement;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t full = strides[d] * (sizes[d] - 1) + extra[d] + kernel[d];
    int64_t begin = type == "valid" ? 0 : pads[d];
    int64_t size = full - begin - (type == "valid" ? 0 : pads[rank + d]);
    if (!given.empty()) {
      size = given[d];
      const int64_t total = full - size;  // negative: zeros are added
      const int64_t half = total / 2;
      begin = type == "same_upper" ? half : total - half;
    }
    if (size < 1) c.refuse(fmt::format("nothing is left of {} elements of spatial dimension {}", full, d));
    placement.begin.push_back(begin);
    placement.size.push_back(size);
  }
  return placement;
}

void transposed_convolve(LowerCall& c) {
  follow_options(c);
  const auto [x, weight] = operands_of(c);
  const Shape &data = x->type().shape, &w = weight->type().shape;
  const int64_t groups = c.attributes().integer("group", 1);
  if (groups < 1 || w[0] != data[1] || data[1] % groups != 0)
    c.refuse(fmt::format("{} channels and weights of {} do not fit groups={}", data[1], ipu::to_string(w),
                         groups));
  const Sizes kernel = spatial(w), sizes = spatial(data);
  const size_t rank = kernel.size();
  const Sizes strides = entries(c, "strides", rank, 1), ones(rank, 1);
  for (const int64_t stride : strides)
    if (stride < 1) c.refuse(fmt::format("strides {} must be positive", ipu::to_string(strides)));
  if (entries(c, "dilations", rank, 1) != ones) c.refuse("dilation other than 1 is not offered");
  const Placement placement = placement_of(c, sizes, kernel, strides);
  // The op gives a part of what the kernels reach; what lies outside of that is zero.
  Sizes low(rank), high(rank), outside_low(rank), outside_high(rank);
  Shape result{data[0], w[1] * groups};
  for (size_t d = 0; d < rank; ++d) {
    const int64_t full = strides[d] * (sizes[d] - 1) + kernel[d];
    const int64_t end = placement.begin[d] + placement.size[d];
    low[d] = std::clamp<int64_t>(placement.begin[d], 0, full - 1);
    high[d] = std::clamp<int64_t>(full - end, 0, full - 1 - low[d]);
    outside_low[d] = low[d] - placement.begin[d];
    outside_high[d] = end - (full - high[d]);
    result.push_back(full - low[d] - high[d]);
  }
  Attributes attributes{{"input_shape", result}, {"strides", strides}, {"padding_low", low},
                        {"padding_high", high},  {"dilations", ones},  {"groups", groups}};
  PartsCall parts(c);
  ir::Value* y = rank == 3 ? ops::transposed_volume_convolution(parts, x, weight, attributes)
                           : c.build("conv_input_gradient", {x, weight}, attributes);
  c.set_output(0, product_of_factors(c, padded_or_cut(c, y, outside_low, outside_high)));
}

// Weights of a convolution that is a transposed one on data with zeros between: [C, O / g, k...] becomes
// [O, C / g, k...], the kernel turned round.
void flip_weights(LowerCall& c) {
  ir::Value* w = c.input(0);
  const Shape shape = w->type().shape;
  const int64_t groups = c.attributes().integer("group", 1);
  if (shape.size() < 3 || groups < 1 || shape[0] % groups != 0)
    c.refuse(fmt::format("weights of {} do not fit groups={}", ipu::to_string(shape), groups));
  std::vector<int64_t> dims, permutation{0, 2, 1};
  Shape grouped{groups, shape[0] / groups, shape[1]}, result{groups * shape[1], shape[0] / groups};
  for (size_t d = 2; d < shape.size(); ++d) {
    dims.push_back(static_cast<int64_t>(d));
    permutation.push_back(static_cast<int64_t>(d) + 1);
    grouped.push_back(shape[d]);
    result.push_back(shape[d]);
  }
  w = c.build("flip", {w}, {{"dims", dims}});
  c.set_output(0, c.reshape(c.transpose(c.reshape(w, grouped), permutation), result));
}

const KindRegistration conv = define_kind("Conv")
                                  .id("ai.onnx", 11)
                                  .gradient_row({{0}, "ConvDataGrad", {in(1)}})
                                  .gradient_row({{1}, "ConvWeightsGrad", {in(0)}})
                                  .refuses_gradient_where(is_of_float8)
                                  .lower(convolve);
const KindRegistration conv_transpose =
    define_kind("ConvTranspose").id("ai.onnx", 11).lower(transposed_convolve);
const KindRegistration conv_flip_weights = define_kind("ConvFlipWeights").graphcore().lower(flip_weights);

const CreatorRegistration convolution_creators = {{
    {"ConvOp",
     "opid settings strides:ints pads:ints dilations:ints group:int padType:snake "
     "convOpts>*:conv_options"},
    {"ConvTransposeOp",
     "opid settings strides:ints pads:ints dilations:ints group:int padType:snake outputPadding:ints "
     "outputShape:ints convOpts>*:conv_options"},
}};
const FunctionRegistration convolution_functions = {{
    {"Conv",
     "conv(t, weight, stride:tuple>strides=(1, 1), padding:tuple>pads=(0, 0, 0, 0), "
     "dilation:tuple>dilations=(1, 1), groups:whole>group=1, pad_type:PadType>padType='not_set', "
     "available_memory_proportions:shares>availableMemoryProportions=None, "
     "partials_types:partials>partialsTypes=None, "
     "enable_conv_dithering:flags>enableConvDithering=None) -> conv_out",
     R"(Convolution (cross-correlation) in one to three dimensions; the defaults are for two.

Args:
    t: (N, C, d1, ..., dn), floating.
    weight: (M, C / groups, k1, ..., kn), of the dtype of `t`.
    stride, dilation: one number for each spatial dimension.
    padding: (begin1, ..., beginn, end1, ..., endn).
    groups: parts that the channels are convolved in.
    pad_type: "not_set", or how to pad instead of by `padding`.
    available_memory_proportions: in (0, 1], of the tile memory; no effect on values.
    partials_types: "half" or "float" of partial sums.
    enable_conv_dithering: spread over tiles; no effect on values.

Returns:
    (N, M, o1, ..., on), in the dtype of `t`.

Raises:
    ValueError: another `pad_type` or partials type, or the operands are on different IPUs or tile sets.
    popart.popart_exception: shapes, groups or dtypes do not fit.)",
     "y = ops.conv(x, w, padding=(1, 1, 1, 1))"},
    {"Conv",
     "conv_pow2scaled(t, weight, log2_scale:log2, stride:tuple>strides=(1, 1), padding:tuple>pads=(0, "
     "0, 0, 0), dilation:tuple>dilations=(1, 1), groups:whole>group=1, "
     "pad_type:PadType>padType='not_set', "
     "available_memory_proportions:shares>availableMemoryProportions=None, "
     "enable_conv_dithering:flags>enableConvDithering=None) -> conv_out",
     R"(`conv` of float8 operands times 2^log2_scale, as float16.

Args:
    t, weight: as of `conv`, float8_143 or float8_152, may differ.
    log2_scale: (), int32, in [-32, 32).

Raises:
    TypeError: an operand is not float8, or `log2_scale` not int32.
    ValueError: `log2_scale` has axes; else as of `conv`.)",
     "y = ops.conv_pow2scaled(x, w, popxl.constant(1, popxl.int32))"},
    {"ConvTranspose",
     "conv_transpose(t, weight, stride:tuple>strides=(1, 1), padding:tuple>pads=(0, 0, 0, 0), "
     "dilation:tuple>dilations=(1, 1), groups:whole>group=1, pad_type:PadType>padType='not_set', "
     "output_padding:tuple>outputPadding=(), output_shape:tuple>outputShape=(), "
     "available_memory_proportions:shares>availableMemoryProportions=None, "
     "partials_types:partials>partialsTypes=None, "
     "enable_conv_dithering:flags>enableConvDithering=None) -> convtranspose_out",
     R"(Transposed convolution in one to three dimensions.

Args:
    t: (N, C, d1, ..., dn), floating.
    weight: (C, M / groups, k1, ..., kn), of the dtype of `t`.
    stride, padding, groups, pad_type: as of `conv`. Result i has
        stride * (d - 1) + output_padding + k - begin - end elements.
    dilation: ones.
    output_padding: elements more behind, one number for each spatial dimension.
    output_shape: the spatial sizes, or the whole shape, of the result; what is cut off follows from it, an odd
        element at the end for "same_upper", else at the beginning.
    available_memory_proportions, partials_types, enable_conv_dithering: as of `conv`.

Returns:
    (N, M, o1, ..., on), in the dtype of `t`.

Raises:
    ValueError: as of `conv`.
    popart.popart_exception: shapes, groups or dtypes do not fit, or a dilation is not 1.)",
     "y = ops.conv_transpose(x, w, stride=(2, 2))"},
    {"ConvTranspose",
     "conv_transpose_pow2scaled(t, weight, log2_scale:log2, stride:tuple>strides=(1, 1), "
     "padding:tuple>pads=(0, 0, 0, 0), dilation:tuple>dilations=(1, 1), groups:whole>group=1, "
     "pad_type:PadType>padType='not_set', output_padding:tuple>outputPadding=(), "
     "output_shape:tuple>outputShape=(), "
     "available_memory_proportions:shares>availableMemoryProportions=None, "
     "enable_conv_dithering:flags>enableConvDithering=None) -> convtranspose_out",
     R"(`conv_transpose` of float8 operands times 2^log2_scale, as float16.

Args:
    t, weight: as of `conv_transpose`, float8_143 or float8_152, may differ.
    log2_scale: (), int32, in [-32, 32).

Raises:
    TypeError: an operand is not float8, or `log2_scale` not int32.
    ValueError: `log2_scale` has axes; else as of `conv_transpose`.)",
     "y = ops.conv_transpose_pow2scaled(x, w, popxl.constant(1, popxl.int32))"},
}};

}  // namespace
}  // namespace ipu::popxl
