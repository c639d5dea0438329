// Interpolation: nearest, linear and cubic in one to three dimensions. Resizing is separable: along each
// dimension a result element is a sum of a few input elements, whose places and weights are known at compile
// time. Not here: antialiasing.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/composer.h"
#include "ops/definition/decomposition.h"
#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/interpolation/popart_resize.h"

namespace ipu::ops {
namespace {

// Result element i is the sum over taps of weight[i] * input[index[i]]; no weights: 1.
struct Tap {
  std::vector<int32_t> index;
  std::vector<float> weight;
};

struct Axis {
  int64_t in, out;
  double scale;  // input elements per result element
};

// f32 as in torch: places just below a whole number fall on the same side.
std::vector<Tap> nearest_taps(const Axis& axis, bool exact) {
  Tap tap;
  const auto scale = static_cast<float>(axis.scale);
  for (int64_t i = 0; i < axis.out; ++i) {
    const float at = (static_cast<float>(i) + (exact ? 0.5f : 0.0f)) * scale;
    tap.index.push_back(
        static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(std::floor(at)), axis.in - 1)));
  }
  return {tap};
}

double corner_scale(const Axis& axis) {
  return axis.out > 1 ? static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1) : 0.0;
}

std::vector<Tap> linear_taps(const Axis& axis, bool align_corners) {
  Tap low, high;
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = align_corners ? corner_scale(axis) * static_cast<double>(i)
                                    : std::max(0.0, axis.scale * (static_cast<double>(i) + 0.5) - 0.5);
    const auto first = std::min<int64_t>(static_cast<int64_t>(at), axis.in - 1);
    const double share = std::clamp(at - static_cast<double>(first), 0.0, 1.0);
    low.index.push_back(static_cast<int32_t>(first));
    high.index.push_back(static_cast<int32_t>(std::min(first + 1, axis.in - 1)));
    low.weight.push_back(static_cast<float>(1.0 - share));
    high.weight.push_back(static_cast<float>(share));
  }
  return {low, high};
}

// Keys' kernel with A = -0.75.
double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double x = std::abs(distance);
  if (x <= 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return ((kA * x - 5.0 * kA) * x + 8.0 * kA) * x - 4.0 * kA;
  return 0.0;
}

std::vector<Tap> cubic_taps(const Axis& axis, bool align_corners) {
  std::vector<Tap> taps(4);
  for (int64_t i = 0; i < axis.out; ++i) {
    const double at = align_corners ? corner_scale(axis) * static_cast<double>(i)
                                    : axis.scale * (static_cast<double>(i) + 0.5) - 0.5;
    const auto first = static_cast<int64_t>(std::floor(at));
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t place = first - 1 + k;
      taps[static_cast<size_t>(k)].index.push_back(
          static_cast<int32_t>(std::clamp<int64_t>(place, 0, axis.in - 1)));
      taps[static_cast<size_t>(k)].weight.push_back(
          static_cast<float>(cubic_weight(at - static_cast<double>(place))));
    }
  }
  return taps;
}

ir::Value* along(Composer& c, ir::Value* x, int64_t dim, const std::vector<Tap>& taps) {
  ir::Builder& builder = c.builder();
  Shape column(x->type().shape.size(), 1);
  column[static_cast<size_t>(dim)] = std::ssize(taps[0].index);
  ir::Value* sum = nullptr;
  for (const Tap& tap : taps) {
    ir::Value* index =
        builder.constant(ir::make_constant(DType::kI32, {std::ssize(tap.index)}, tap.index.data()));
    ir::Value* y = c.op("index_select", {x, index}, {{"dim", dim}});
    if (!tap.weight.empty()) {
      ir::Value* weight = builder.constant(ir::make_constant(DType::kF32, column, tap.weight.data()));
      y = c.mul(y, c.cast(weight, x->type().dtype));
    }
    sum = sum == nullptr ? y : c.add(sum, y);
  }
  return sum;
}

// --- the ops: sizes and factors are those of the dimensions behind [N, C].

ir::Type resized_type(const InferContext& c, const ir::Type& x, std::string_view sizes) {
  if (x.shape.size() < 3 || x.shape.size() > 5)
    shape_error(fmt::format("{} must be [N,C,...] with one to three more dimensions", to_string(x.shape)));
  const size_t spatial = x.shape.size() - 2;
  ir::Type y{x.dtype, {x.shape[0], x.shape[1]}};
  for (const int64_t size : per_dimension(c, sizes, spatial, 0)) y.shape.push_back(size);
  one_of(c, "mode", {"nearest", "nearest_exact", "linear", "cubic"});
  const std::vector<double>& factors = c.attributes.reals("factors");
  if (!factors.empty() && factors.size() != spatial)
    attribute_error(fmt::format("factors must have {} entries or none", spatial));
  for (size_t d = 2; d < x.shape.size(); ++d)
    if ((x.shape[d] == 0) != (y.shape[d] == 0))
      shape_error(fmt::format("{} cannot become {}", to_string(x.shape), to_string(y.shape)));
  return y;
}

// x resized to `sizes`; a factor that is not 0 wins over the ratio of the sizes.
ir::Value* resized(Composer& c, ir::Value* x, const std::vector<int64_t>& sizes) {
  const std::string& mode = c.attributes().text("mode");
  const std::vector<double>& factors = c.attributes().reals("factors");
  const bool corners = c.attributes().boolean("align_corners");
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d + 2);
    Axis axis{x->type().shape[d + 2], sizes[d], 0.0};
    const double factor = factors.empty() ? 0.0 : factors[d];
    axis.scale = factor > 0.0 ? 1.0 / factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
    if (axis.in == axis.out && (factor == 0.0 || factor == 1.0)) continue;
    x = along(c, x, dim,
              mode == "linear"  ? linear_taps(axis, corners)
              : mode == "cubic" ? cubic_taps(axis, corners)
                                : nearest_taps(axis, mode == "nearest_exact"));
  }
  return x;
}

// The gradient is that of a resize of zeros: interpolation is linear, so the values of x do not matter.
std::vector<ir::Value*> gradient_parts(Composer& c) {
  ir::Value* dy = c.operand(0);
  Shape shape = dy->type().shape;
  const std::vector<int64_t>& from = c.attributes().integers("sizes");
  const std::vector<int64_t> to(shape.begin() + 2, shape.end());
  std::copy(from.begin(), from.end(), shape.begin() + 2);
  ir::Value* x = c.builder().splat({dy->type().dtype, shape}, 0.0);
  Attributes attributes = c.attributes();
  attributes.set("sizes", to);
  const Repeated forward = repeat(c.builder(), "interpolate", {x}, attributes, {dy->type()});
  const std::vector<ir::Value*> gradients = gradients_of_parts(
      forward.parts, {dy}, forward.operands, c.builder(), [](ir::Value* value) { return value; });
  erase_unused(forward.parts, gradients);
  return {gradients[0]};
}

void import_resize(AtenImportCall& call, const std::string& mode, size_t dims) {
  static constexpr std::string_view kScales[3][3] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  call.integers("output_size");  // refused before tables of that size are made
  const Shape result = call.result_type(0).shape;
  std::vector<double> factors;
  for (size_t d = 0; d < dims; ++d) {
    const std::string_view name = kScales[dims - 1][d];
    factors.push_back(call.has(name) ? call.real(name) : 0.0);
  }
  if (std::all_of(factors.begin(), factors.end(), [](double f) { return f == 0.0; })) factors.clear();
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  call.set_result(0,
                  call.op("interpolate", {x},
                          {{"mode", mode},
                           {"sizes", std::vector<int64_t>(result.begin() + 2, result.end())},
                           {"factors", std::move(factors)},
                           {"align_corners", call.has("align_corners") && call.boolean("align_corners")}}));
}

// --- ONNX

// The mode of ours that a node means; Error(kUnsupportedOps) for the rest.
std::string mode_of_node(NodeImportCall& call, const std::string& places) {
  const std::string mode = call.text("mode", "nearest");
  for (const char* name : {"cubic_coeff_a", "exclude_outside"}) call.ignore(name);
  if (mode == "nearest") {
    const std::string rounding = call.text("nearest_mode", "round_prefer_floor");
    if (places == "asymmetric" && rounding == "floor") return "nearest";
    if (places == "half_pixel" && rounding == "round_prefer_ceil") return "nearest_exact";
    call.unsupported(
        fmt::format("mode nearest with coordinates '{}' rounded by '{}'; asymmetric with floor "
                    "and half_pixel with round_prefer_ceil are there",
                    places, rounding));
  }
  call.ignore("nearest_mode");
  if (mode != "linear" && mode != "cubic") call.unsupported(fmt::format("mode '{}'", mode));
  if (places != "half_pixel" && places != "align_corners" && places != "pytorch_half_pixel")
    call.unsupported(
        fmt::format("mode {} with coordinates '{}'; half_pixel and align_corners are there", mode, places));
  if (mode == "cubic" &&
      (call.real("cubic_coeff_a", -0.75) != -0.75 || call.integer("exclude_outside", 0) != 0))
    call.unsupported("a cubic_coeff_a other than -0.75, or exclude_outside");
  return mode;
}

// Factors (operand 2) or sizes (operand 3) of all dimensions, of which the first two stay as they are.
void import_onnx_resize(NodeImportCall& call) {
  if (call.is_popart()) return import_popart_resize(call);
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const std::string places = call.text("coordinate_transformation_mode", "half_pixel");
  const std::string mode = mode_of_node(call, places);
  if (call.integer("antialias", 0) != 0) call.unsupported("antialias");
  if (call.has("axes")) call.unsupported("axes");
  if (call.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    call.unsupported("a keep_aspect_ratio_policy other than stretch");
  call.ignore("extrapolation_value");
  std::vector<double> factors;
  Shape sizes;
  if (call.has_operand(2)) {
    const ConstantPtr given = call.constant(2);
    if (given == nullptr) call.unsupported("factors that the model does not state");
    factors = reals_of(*given);
  }
  if (factors.empty()) {
    sizes = call.operand_integers(3, "sizes");
  } else {
    for (size_t d = 0; d < std::min(factors.size(), shape.size()); ++d)
      sizes.push_back(static_cast<int64_t>(std::floor(static_cast<double>(shape[d]) * factors[d])));
  }
  if (shape.size() < 3 || shape.size() > 5 || sizes.size() != shape.size() || sizes[0] != shape[0] ||
      sizes[1] != shape[1])
    call.unsupported(fmt::format("{} resized to {}; one to three dimensions behind the first two are there",
                                 to_string(shape), to_string(sizes)));
  for (size_t d = 2; d < sizes.size(); ++d)
    if (places == "pytorch_half_pixel" && mode != "nearest" && sizes[d] == 1 && shape[d] != 1)
      call.unsupported(fmt::format("pytorch_half_pixel from {} elements to one", shape[d]));
  if (!factors.empty()) factors.erase(factors.begin(), factors.begin() + 2);
  // There the corners are those of the size before it is cut to a whole number.
  for (size_t d = 0; d < factors.size(); ++d)
    if (places == "align_corners" &&
        static_cast<double>(shape[d + 2]) * factors[d] != static_cast<double>(sizes[d + 2]))
      call.unsupported(fmt::format("align_corners with the factor {}, which makes no whole number of {}",
                                   factors[d], shape[d + 2]));
  call.set_result(0, call.op("interpolate", {x},
                             {{"mode", mode},
                              {"sizes", std::vector<int64_t>(sizes.begin() + 2, sizes.end())},
                              {"factors", factors},
                              {"align_corners", places == "align_corners"}}));
}

OpDefBuilder interpolate_op() {
  OpDefBuilder builder = define_op("interpolate", "interpolation");
  const auto add = [&](const std::string& name, const std::string& mode, size_t dims) {
    builder.from_aten({name}, [=](AtenImportCall& call) { import_resize(call, mode, dims); });
  };
  for (size_t dims = 1; dims <= 3; ++dims) {
    add(fmt::format("upsample_nearest{}d", dims), "nearest", dims);
    add(fmt::format("_upsample_nearest_exact{}d", dims), "nearest_exact", dims);
  }
  add("upsample_linear1d", "linear", 1);
  add("upsample_bilinear2d", "linear", 2);
  add("upsample_trilinear3d", "linear", 3);
  add("upsample_bicubic2d", "cubic", 2);
  builder.from_onnx("Resize", {11}, import_onnx_resize);
  return builder;
}

const OpRegistration interpolate =
    interpolate_op()
        .doc(
            "x [N, C, ...] resized to sizes behind N and C: nearest, nearest_exact, linear or cubic. A result "
            "element i lies at (i + 0.5) * scale - 0.5 of x (nearest: i * scale), with the scale 1 / factor "
            "or the ratio of the sizes; with align_corners the corners of both lie on each other.")
        .operand("x", kAnyFloat)
        .attribute("mode")
        .attribute("sizes")
        .attribute("factors", std::vector<double>{})
        .attribute("align_corners", false)
        .result("y")
        .infer([](const InferContext& c) {
          return std::vector<ir::Type>{resized_type(c, c.operand(0), "sizes")};
        })
        .compound([](Composer& c) {
          return std::vector<ir::Value*>{resized(c, c.operand(0), c.attributes().integers("sizes"))};
        })
        .gradient([](GradientBuilder& g) {
          const Shape& x = g.operand_type(0).shape;
          Attributes attributes = g.attributes();
          attributes.set("sizes", std::vector<int64_t>(x.begin() + 2, x.end()));
          g.set(0, g.op("interpolate_gradient", {g.upstream()}, std::move(attributes)));
        })
        .samples(
            {{{f32({1, 2, 4})}, {{"mode", std::string("nearest")}, {"sizes", std::vector<int64_t>{7}}}},
             {{f32({1, 1, 3, 4})},
              {{"mode", std::string("nearest_exact")}, {"sizes", std::vector<int64_t>{5, 2}}}},
             {{f32({2, 1, 3, 2})},
              {{"mode", std::string("linear")},
               {"sizes", std::vector<int64_t>{6, 3}},
               {"factors", std::vector<double>{2.0, 1.5}}}},
             {{f32({1, 1, 2, 2, 3})},
              {{"mode", std::string("linear")},
               {"sizes", std::vector<int64_t>{3, 2, 5}},
               {"align_corners", true}}},
             {{f16({1, 1, 4, 3})}, {{"mode", std::string("cubic")}, {"sizes", std::vector<int64_t>{6, 5}}}}});

const OpRegistration interpolate_gradient =
    define_op("interpolate_gradient", "interpolation")
        .doc("Gradient of interpolate for its x, whose sizes behind N and C are sizes.")
        .operand("dy", kAnyFloat)
        .attribute("mode")
        .attribute("sizes")
        .attribute("factors", std::vector<double>{})
        .attribute("align_corners", false)
        .result("dx")
        .infer([](const InferContext& c) {
          return std::vector<ir::Type>{resized_type(c, c.operand(0), "sizes")};
        })
        .compound(gradient_parts)
        .samples({{{f32({1, 2, 7})}, {{"mode", std::string("nearest")}, {"sizes", std::vector<int64_t>{4}}}},
                  {{f32({2, 1, 6, 3})},
                   {{"mode", std::string("linear")}, {"sizes", std::vector<int64_t>{3, 2}}}}});

}  // namespace
}  // namespace ipu::ops
