#include "ops/interpolation/popart_resize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/composer.h"
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"

namespace ipu::ops {
namespace {

struct How {
  std::string mode, rounding, places;
};

struct Line {
  int64_t in, out;
  float scale;  // result elements per element of x
};

// Where result element i lies in x.
float source(const How& how, const Line& line, int64_t i) {
  const auto at = static_cast<float>(i);
  const float size = static_cast<float>(line.in) * line.scale;
  if (how.mode == "nearest" && how.rounding == "pytorch") return at / line.scale;
  if (how.places == "asymmetric") return at / line.scale;
  if (how.places == "align_corners")
    return size == 1.0f ? 0.0f : at * static_cast<float>(line.in - 1) / (size - 1.0f);
  if (how.places == "pytorch_half_pixel" && size <= 1.0f) return 0.0f;
  return (at + 0.5f) / line.scale - 0.5f;
}

int64_t rounded(const How& how, const Line& line, int64_t i) {
  const bool repeats =
      how.places == "half_pixel" && line.scale == std::floor(line.scale) && how.rounding.starts_with("round");
  if (repeats) return static_cast<int64_t>(std::floor(static_cast<float>(i) / line.scale));
  const float x = source(how, line, i);
  if (how.rounding == "floor" || how.rounding == "pytorch") return static_cast<int64_t>(std::floor(x));
  if (how.rounding == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (how.rounding == "round_prefer_ceil") return static_cast<int64_t>(std::round(x));
  return static_cast<int64_t>(x - std::floor(x) <= 0.5f ? std::floor(x) : std::ceil(x));
}

int64_t clamped(int64_t place, const Line& line) { return std::clamp<int64_t>(place, 0, line.in - 1); }

// Which element of x each result element is, and which one its gradient is added to.
ir::Value* nearest(NodeImportCall& call, ir::Value* x, int64_t dim, const How& how, const Line& line) {
  std::vector<int64_t> places, back;
  for (int64_t i = 0; i < line.out; ++i) {
    places.push_back(clamped(rounded(how, line, i), line));
    back.push_back(clamped(static_cast<int64_t>(std::floor(static_cast<float>(i) / line.scale)), line));
  }
  return call.op("resize_nearest", {x}, {{"dim", dim}, {"places", places}, {"gradient_places", back}});
}

float cubic_weight(float distance) {
  constexpr float kA = -0.75f;
  const float x = std::abs(distance);
  if (x <= 1.0f) return ((kA + 2.0f) * x - (kA + 3.0f)) * x * x + 1.0f;
  return x < 2.0f ? ((kA * x - 5.0f * kA) * x + 8.0f * kA) * x - 4.0f * kA : 0.0f;
}

ir::Value* weighted(NodeImportCall& call, ir::Value* x, int64_t dim, const How& how, const Line& line) {
  const int64_t taps = how.mode == "linear" ? 2 : 4;
  Shape column(x->type().shape.size(), 1);
  column[static_cast<size_t>(dim)] = line.out;
  ir::Value* sum = nullptr;
  for (int64_t k = 0; k < taps; ++k) {
    std::vector<int32_t> index;
    std::vector<float> weight;
    for (int64_t i = 0; i < line.out; ++i) {
      const float at = source(how, line, i), first = std::floor(at);
      if (how.mode == "linear") {
        const float inside = std::max(at, 0.0f), share = inside - std::floor(inside);
        const auto place = static_cast<int64_t>(k == 0 ? std::floor(at) : std::ceil(at));
        index.push_back(static_cast<int32_t>(clamped(place, line)));
        weight.push_back(k == 0 ? 1.0f - share : share);
      } else {
        const auto place = static_cast<int64_t>(first) - 1 + k;
        index.push_back(static_cast<int32_t>(clamped(place, line)));
        weight.push_back(cubic_weight(at - static_cast<float>(place)));
      }
    }
    ir::Builder& builder = call.builder();
    ir::Value* places = builder.constant(ir::make_constant(DType::kI32, {line.out}, index.data()));
    ir::Value* factor = builder.constant(ir::make_constant(DType::kF32, column, weight.data()));
    ir::Value* part = call.op(
        "mul", {call.op("index_select", {x, places}, {{"dim", dim}}), call.cast(factor, x->type().dtype)});
    sum = sum == nullptr ? part : call.op("add", {sum, part});
  }
  return sum;
}

ir::Value* resized(NodeImportCall& call, ir::Value* x, const How& how, const std::vector<float>& scales,
                   const std::vector<int64_t>& sizes) {
  const Shape from = x->type().shape;
  for (size_t d = 0; d < from.size(); ++d) {
    const Line line{from[d], sizes[d], scales[d]};
    if (line.scale == 1.0f) continue;
    if (line.out < 1 || line.in < 1)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of {} to {}, which has no elements.", call.described(),
                              to_string(from), to_string(sizes)));
    const auto dim = static_cast<int64_t>(d);
    x = how.mode == "nearest" ? nearest(call, x, dim, how, line) : weighted(call, x, dim, how, line);
  }
  return how.mode == "linear" ? no_device_gradient(call, x) : x;
}

void check_word(NodeImportCall& call, const char* name, const std::string& word,
                std::initializer_list<const char*> words) {
  for (const char* known : words)
    if (word == known) return;
  call.unsupported(fmt::format("{} '{}'", name, word));
}

bool has_elements(NodeImportCall& call, int i) {
  if (!call.has_operand(i)) return false;
  const ConstantPtr stated = call.constant(i);
  if (stated == nullptr)
    call.unsupported(
        fmt::format("operand {} that is computed when the program runs; it must be constant", i));
  return !stated->bytes.empty();
}

void check_count(NodeImportCall& call, const char* what, size_t count, size_t rank) {
  if (count != rank)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} has {} {} for {} dimensions.",
                                                      call.described(), count, what, rank));
}

void resize_to(NodeImportCall& call, const How& how, int scales_operand, int sizes_operand) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const bool has_scales = has_elements(call, scales_operand);
  const bool has_sizes = sizes_operand >= 0 && has_elements(call, sizes_operand);
  if (has_scales == has_sizes)
    call.unsupported(has_scales ? "both scales and sizes; one of them says how large the result is"
                                : "neither scales nor sizes");
  std::vector<float> scales;
  std::vector<int64_t> sizes;
  if (has_scales) {
    for (const double scale : reals_of(*call.constant(scales_operand)))
      scales.push_back(static_cast<float>(scale));
    check_count(call, "scales", scales.size(), shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      sizes.push_back(static_cast<int64_t>(std::floor(static_cast<float>(shape[d]) * scales[d])));
  } else {
    sizes = operand_sizes(call, sizes_operand, "sizes");
    check_count(call, "sizes", sizes.size(), shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      scales.push_back(static_cast<float>(sizes[d]) / static_cast<float>(shape[d]));
  }
  ir::Value* y = resized(call, x, how, scales, sizes);
  call.set_result(0, y == x ? call.op("nop", {x}) : y);
}

}  // namespace

void import_popart_resize(NodeImportCall& call) {
  const bool is_10 = call.version() < 11;
  const How how{call.text("mode", "nearest"),
                call.text("nearest_mode", is_10 ? "pytorch" : "round_prefer_floor"),
                call.text("coordinate_transformation_mode", "half_pixel")};
  check_word(call, "mode", how.mode, {"nearest", "linear", "cubic"});
  check_word(call, "nearest_mode", how.rounding,
             {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "pytorch"});
  check_word(call, "coordinate_transformation_mode", how.places,
             {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"});
  if (call.integer("exclude_outside", 0) != 0) call.unsupported("exclude_outside");
  call.ignore("cubic_coeff_a");
  call.ignore("extrapolation_value");
  if (!is_10) call.has_operand(1);  // roi, which these coordinates do not need
  is_10 ? resize_to(call, how, 1, -1) : resize_to(call, how, 2, 3);
}

namespace {

// Version 9 has its factors as operand 1: the element at or before i / factor, or between two elements.
void import_upsample(NodeImportCall& call) {
  const std::string mode = call.text("mode", "nearest");
  check_word(call, "mode", mode, {"nearest", "linear"});
  resize_to(call, {mode, "pytorch", call.is_popart() ? "half_pixel" : "asymmetric"}, 1, -1);
}

// Before PopART's own rules: version 10 of ONNX counts places from the first element of both.
void import_resize_of_10(NodeImportCall& call) {
  if (call.is_popart()) return import_popart_resize(call);
  import_upsample(call);
}

ir::Value* places_of(ir::Builder& builder, const std::vector<int64_t>& places) {
  const std::vector<int32_t> narrow(places.begin(), places.end());
  return builder.constant(ir::make_constant(DType::kI32, {std::ssize(narrow)}, narrow.data()));
}

const OpRegistration resize_nearest =
    define_op("resize_nearest", "interpolation")
        .doc(
            "The slices of x along dim numbered by places. Its gradient adds each slice to the one that "
            "gradient_places numbers, which may be another, as in PopART.")
        .operand("x", kAnything)
        .attribute("dim")
        .attribute("places")
        .attribute("gradient_places")
        .result("y")
        .infer([](const InferContext& c) {
          ir::Type y{c.operand(0).dtype, c.operand(0).shape};
          int64_t& size = y.shape[dimension(c, "dim", y.shape.size())];
          const auto& places = c.attributes.integers("places");
          const auto& back = c.attributes.integers("gradient_places");
          if (places.size() != back.size())
            attribute_error("places and gradient_places have different lengths");
          for (const auto* list : {&places, &back})
            for (const int64_t place : *list)
              if (place < 0 || place >= size) attribute_error(fmt::format("no place {} of {}", place, size));
          size = std::ssize(places);
          return std::vector<ir::Type>{y};
        })
        .compound([](Composer& c) {
          return std::vector<ir::Value*>{
              c.op("index_select", {c.operand(0), places_of(c.builder(), c.attributes().integers("places"))},
                   {{"dim", c.attributes().integer("dim")}})};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("index_add",
                        {g.zeros(g.operand_type(0)),
                         places_of(g.builder(), g.attributes().integers("gradient_places")), g.upstream()},
                        {{"dim", g.attributes().integer("dim")}}));
        })
        .from_onnx("Upsample", {9, 11}, import_upsample)
        .from_onnx("Resize", {10, 10}, import_resize_of_10)
        .samples({{{f32({2, 4})},
                   {{"dim", int64_t{1}},
                    {"places", Shape{0, 0, 1, 2, 3, 3}},
                    {"gradient_places", Shape{0, 0, 1, 2, 3, 3}}}},
                  {{i32({3})}, {{"dim", int64_t{0}}, {"places", Shape{2}}, {"gradient_places", Shape{2}}}}});

const PopartOperators popart_resize_popart = {{
    {"Upsample", "9", "X:N !scales:FLOAT", "Y:N", "yes", "mode=nearest|linear"},
    {"Resize", "10 11", "X:N roi:F !scales:F !sizes:INDEX", "Y:N", "yes",
     "coordinate_transformation_mode=half_pixel|pytorch_half_pixel|asymmetric|align_corners "
     "cubic_coeff_a exclude_outside=0 extrapolation_value mode=nearest|linear|cubic "
     "nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil|pytorch"},
}};

}  // namespace
}  // namespace ipu::ops
