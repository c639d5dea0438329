// Importers of interpolation: nearest, linear and cubic in one to three dimensions. Resizing is separable:
// along each dimension a result element is a sum of a few input elements, whose places and weights are known
// at compile time. Not here: antialiasing.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/rule_support.h"

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

ir::Value* along(AtenImportCall& call, ir::Value* x, int64_t dim, const std::vector<Tap>& taps) {
  ir::Builder& builder = call.builder();
  Shape column(x->type().shape.size(), 1);
  column[dim] = std::ssize(taps[0].index);
  ir::Value* sum = nullptr;
  for (const Tap& tap : taps) {
    ir::Value* index =
        builder.constant(ir::make_constant(DType::kI32, {std::ssize(tap.index)}, tap.index.data()));
    ir::Value* y = call.op("index_select", {x, index}, {{"dim", dim}});
    if (!tap.weight.empty()) {
      ir::Value* weight = builder.constant(ir::make_constant(DType::kF32, column, tap.weight.data()));
      y = call.op("mul", {y, call.cast(weight, x->type().dtype)});
    }
    sum = sum == nullptr ? y : call.op("add", {sum, y});
  }
  return sum;
}

enum class Mode : uint8_t { kNearest, kNearestExact, kLinear, kCubic };

// x [N, C, spatial...]; a scale factor that is given wins over the ratio of the sizes.
void import_resize(AtenImportCall& call, Mode mode, size_t dims) {
  static constexpr std::string_view kScales[3][3] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  call.integers("output_size");  // refused before tables of that size are made
  const bool corners = call.has("align_corners") && call.boolean("align_corners");
  const Shape result = call.result_type(0).shape;
  for (size_t d = 0; d < dims; ++d) {
    const auto dim = static_cast<int64_t>(d + 2);
    Axis axis{x->type().shape[dim], result[dim], 0.0};
    const std::string_view name = kScales[dims - 1][d];
    const double factor = call.has(name) ? call.real(name) : 0.0;
    axis.scale = factor > 0.0 ? 1.0 / factor : static_cast<double>(axis.in) / static_cast<double>(axis.out);
    if (axis.in == axis.out && (factor == 0.0 || factor == 1.0)) continue;
    switch (mode) {
      case Mode::kNearest:
      case Mode::kNearestExact:
        x = along(call, x, dim, nearest_taps(axis, mode == Mode::kNearestExact));
        break;
      case Mode::kLinear:
        x = along(call, x, dim, linear_taps(axis, corners));
        break;
      case Mode::kCubic:
        x = along(call, x, dim, cubic_taps(axis, corners));
        break;
    }
  }
  call.set_result(0, x);
}

struct Registrations {
  Registrations() {
    const auto add = [](const std::string& name, Mode mode, size_t dims) {
      register_aten_importer(name, [=](AtenImportCall& call) { import_resize(call, mode, dims); });
    };
    for (size_t dims = 1; dims <= 3; ++dims) {
      add(fmt::format("upsample_nearest{}d", dims), Mode::kNearest, dims);
      add(fmt::format("_upsample_nearest_exact{}d", dims), Mode::kNearestExact, dims);
    }
    add("upsample_linear1d", Mode::kLinear, 1);
    add("upsample_bilinear2d", Mode::kLinear, 2);
    add("upsample_trilinear3d", Mode::kLinear, 3);
    add("upsample_bicubic2d", Mode::kCubic, 2);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
