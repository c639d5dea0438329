// Resize: a result element is a sum of a few input elements along each dimension, whose places and weights are known
// when the program is compiled. Attributes: mode ("nearest", "linear", "cubic"), scales, nearestMode,
// coordinateTransformationMode.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// Result element i is the sum over taps of weight[i] * input[index[i]].
struct Tap {
  std::vector<int32_t> index;
  std::vector<float> weight;
};

// The place in the input, which has `size` elements, of element i of the result. The factor counts, never the ratio of the
// sizes, which is another where size * factor is no whole number.
float place_of(const std::string& mode, int64_t i, int64_t size, float factor) {
  const auto at = static_cast<float>(i), in = static_cast<float>(size);
  const float product = in * factor;
  if (mode == "asymmetric") return at / factor;
  if (mode == "align_corners") return product == 1.0F ? 0.0F : at * (in - 1.0F) / (product - 1.0F);
  if (mode == "pytorch_half_pixel" && product <= 1.0F) return 0.0F;
  return (at + 0.5F) / factor - 0.5F;
}

double nearest(const std::string& mode, double place) {
  if (mode == "floor") return std::floor(place);
  if (mode == "ceil") return std::ceil(place);
  return mode == "round_prefer_ceil" ? std::floor(place + 0.5) : std::ceil(place - 0.5);
}

// Keys' kernel with A = -0.75.
double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double x = std::abs(distance);
  if (x <= 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return ((kA * x - 5.0 * kA) * x + 8.0 * kA) * x - 4.0 * kA;
  return 0.0;
}

std::vector<Tap> taps_of(const LowerCall& c, int64_t in, int64_t out, float factor) {
  const std::string mode = c.attributes().text("mode", "nearest"),
                    rounding = c.attributes().text("nearestMode", "round_prefer_floor"),
                    places = c.attributes().text("coordinateTransformationMode", "half_pixel");
  std::vector<Tap> taps(mode == "nearest" ? 1 : mode == "linear" ? 2 : 4);
  for (int64_t i = 0; i < out; ++i) {
    double place = place_of(places, i, in, factor);
    if (mode == "linear") place = std::max(place, 0.0);
    const double below = std::floor(place);
    const double first = mode == "nearest" ? nearest(rounding, place) : mode == "linear" ? below : below - 1;
    for (size_t k = 0; k < taps.size(); ++k) {
      const double neighbour = first + static_cast<double>(k), distance = place - neighbour;
      taps[k].index.push_back(static_cast<int32_t>(std::clamp(neighbour, 0.0, static_cast<double>(in - 1))));
      taps[k].weight.push_back(static_cast<float>(mode == "nearest"  ? 1.0
                                                  : mode == "linear" ? 1.0 - std::abs(distance)
                                                                     : cubic_weight(distance)));
    }
  }
  return taps;
}

ir::Value* along(LowerCall& c, ir::Value* x, size_t dim, const std::vector<Tap>& taps) {
  Shape column(x->type().shape.size(), 1);
  column[dim] = std::ssize(taps[0].index);
  ir::Value* sum = nullptr;
  for (const Tap& tap : taps) {
    ir::Value* index =
        c.builder().constant(ir::make_constant(DType::kI32, {std::ssize(tap.index)}, tap.index.data()));
    ir::Value* y = c.build("index_select", {x, index}, {{"dim", static_cast<int64_t>(dim)}});
    if (taps.size() > 1) {
      ir::Value* weight = c.builder().constant(ir::make_constant(DType::kF32, column, tap.weight.data()));
      y = c.build("mul", {y, weight});
    }
    sum = sum == nullptr ? y : c.build("add", {sum, y});
  }
  return sum;
}

void resize(LowerCall& c) {
  const Shape shape = c.shape(0);
  const std::vector<double> scales = reals_or_empty(c.attributes(), "scales");
  if (scales.size() != shape.size())
    c.refuse(fmt::format("{} scales for {} dimensions", scales.size(), shape.size()));
  if (c.attributes().text("coordinateTransformationMode", "half_pixel") == "tf_crop_and_resize")
    c.refuse("tf_crop_and_resize needs a region of interest, which the op has no input for");
  if (!is_floating_point(c.type(0).dtype)) c.refuse("the input must be floating");
  // Sums of several elements are rounded once.
  const bool sums = c.attributes().text("mode", "nearest") != "nearest";
  ir::Value* x = sums ? c.cast(c.input(0), DType::kF32) : c.input(0);
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto factor = static_cast<float>(scales[d]);
    if (factor == 1.0F) continue;
    const auto size = static_cast<int64_t>(std::floor(static_cast<float>(shape[d]) * factor));
    if (size < 1)
      c.refuse(fmt::format("dimension {} of {} elements times {} is empty", d, shape[d], scales[d]));
    x = along(c, x, d, taps_of(c, shape[d], size, factor));
  }
  c.set_output(0, c.cast(x, c.type(0).dtype));
}

const KindRegistration interpolation_kind = define_kind("Resize").graphcore().gradient().lower(resize);

const CreatorRegistration interpolation_creators = {{
    {"ResizeOp",
     "opid settings mode:snake scales:reals nearestMode=None:snake "
     "coordinateTransformationMode=None:snake"},
}};
const FunctionRegistration interpolation_functions = {{
    {"Resize",
     "interpolate(t, scale_factor:scales>scales=(1.0, 1.0, 1.0, 1.0), mode:InterpolateType='nearest', "
     "nearest_mode:NearestType>nearestMode='round_prefer_floor', "
     "coordinate_transformation_mode:CoordinateTransformationType>coordinateTransformationMode='half_pixel') -> interpolate_out",
     R"(Resizes every axis to floor(size * factor); an axis with factor 1 stays as it is.

Args:
    t: any shape, floating.
    scale_factor: one number for each axis; positions are those of torch with `recompute_scale_factor=False`.
    mode: "nearest", "linear" (two neighbours along each axis) or "cubic" (four, A = -0.75); neighbours outside take
        the value of the edge.
    nearest_mode: which neighbour is nearest: "round_prefer_floor", "round_prefer_ceil", "floor" or "ceil".
    coordinate_transformation_mode: where element x of the result lies, by the factor and not the ratio of the sizes:
        "half_pixel" (x + 0.5) / factor - 0.5; "pytorch_half_pixel" the same, 0 where size * factor is at most 1;
        "align_corners" x * (size - 1) / (size * factor - 1); "asymmetric" x / factor; "tf_crop_and_resize" needs a
        region, which there is no way to give.

Returns:
    The result, in the dtype of `t`.

Raises:
    ValueError: another word.
    popart.popart_exception: not one factor for each axis, or "tf_crop_and_resize".)",
     "y = ops.interpolate(x, (1.0, 1.0, 2.0, 2.0), \"linear\")"},
}};

}  // namespace
}  // namespace ipu::popxl
