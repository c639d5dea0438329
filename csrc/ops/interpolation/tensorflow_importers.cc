// Importers of TensorFlow's resizes of images [N, H, W, C] and of their gradients. Along each dimension a result element is a sum of one
// or two input elements, whose places and weights are computed in single precision, as TensorFlow's are.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct Tap {
  std::vector<double> index, weight;  // of each result element
};

enum class Places : uint8_t { kCorner, kCentre, kAligned };  // what of the elements lies on each other

Places read_places(NodeImportCall& call) {
  const bool is_aligned = flag(call, "align_corners"), has_centres = flag(call, "half_pixel_centers");
  if (is_aligned && has_centres) call.unsupported("align_corners together with half_pixel_centers");
  return is_aligned ? Places::kAligned : has_centres ? Places::kCentre : Places::kCorner;
}

float scale_of(Places places, int64_t in, int64_t out) {
  if (places == Places::kAligned && out > 1) return static_cast<float>(in - 1) / static_cast<float>(out - 1);
  return static_cast<float>(in) / static_cast<float>(out);
}

std::vector<Tap> nearest_taps(Places places, int64_t in, int64_t out) {
  const float scale = scale_of(places, in, out);
  Tap tap;
  for (int64_t i = 0; i < out; ++i) {
    const float at = (static_cast<float>(i) + (places == Places::kCentre ? 0.5f : 0.0f)) * scale;
    const float place = places == Places::kAligned ? std::round(at) : std::floor(at);
    tap.index.push_back(std::clamp<double>(place, 0.0, static_cast<double>(in - 1)));
    tap.weight.push_back(1.0);
  }
  return {tap};
}

std::vector<Tap> linear_taps(Places places, int64_t in, int64_t out) {
  const float scale = scale_of(places, in, out);
  const auto last = static_cast<double>(in - 1);
  Tap low, high;
  for (int64_t i = 0; i < out; ++i) {
    const auto number = static_cast<float>(i);
    const float at = places == Places::kCentre ? (number + 0.5f) * scale - 0.5f : number * scale;
    const float floor = std::floor(at), share = at - floor;
    low.index.push_back(std::clamp<double>(floor, 0.0, last));
    high.index.push_back(std::clamp<double>(std::ceil(at), 0.0, last));
    low.weight.push_back(1.0 - static_cast<double>(share));
    high.weight.push_back(static_cast<double>(share));
  }
  return {low, high};
}

using Taps = std::vector<Tap> (*)(Places places, int64_t in, int64_t out);

struct Placed {
  ir::Value *index, *weight;  // weight: nullptr where all are 1
};
Placed placed(NodeImportCall& call, const Tap& tap, const Shape& shape, int64_t dim, DType dtype) {
  const int64_t count = std::ssize(tap.index);
  Shape line(shape.size(), 1);
  line[dim] = count;
  const bool has_weights = std::ranges::any_of(tap.weight, [](double weight) { return weight != 1.0; });
  return {call.builder().constant(constant_of(DType::kI32, {count}, tap.index)),
          has_weights ? call.builder().constant(constant_of(dtype, line, tap.weight)) : nullptr};
}

ir::Value* weighted(NodeImportCall& call, ir::Value* x, ir::Value* weight) {
  return weight == nullptr ? x : call.op("mul", {x, weight});
}

ir::Value* resized(NodeImportCall& call, ir::Value* x, const Shape& size, Taps taps) {
  const Places places = read_places(call);
  for (const int64_t dim : {1, 2}) {
    const Shape shape = x->type().shape;
    const int64_t in = shape[dim], out = size[dim - 1];
    if (in == out) continue;
    ir::Value* sum = nullptr;
    for (const Tap& tap : taps(places, in, out)) {
      const Placed p = placed(call, tap, shape, dim, x->type().dtype);
      ir::Value* part = weighted(call, call.op("index_select", {x, p.index}, {{"dim", dim}}), p.weight);
      sum = sum == nullptr ? part : call.op("add", {sum, part});
    }
    x = sum;
  }
  return x;
}

// Each share goes back where its element came from.
ir::Value* resized_gradient(NodeImportCall& call, ir::Value* dy, const Shape& size, Taps taps) {
  const Places places = read_places(call);
  for (const int64_t dim : {2, 1}) {
    Shape shape = dy->type().shape;
    const int64_t in = size[dim - 1], out = shape[dim];
    if (in == out) continue;
    const DType dtype = dy->type().dtype;
    shape[dim] = in;
    ir::Value* sum = call.builder().splat({dtype, shape}, 0.0);
    for (const Tap& tap : taps(places, in, out)) {
      const Placed p = placed(call, tap, shape, dim, dtype);
      sum = call.op("index_add", {sum, p.index, weighted(call, dy, p.weight)}, {{"dim", dim}});
    }
    dy = sum;
  }
  return dy;
}

void check_images(NodeImportCall& call, const Shape& x, const Shape& size) {
  constexpr int64_t kMost = 1 << 20;
  if (x.size() == 4 && size.size() == 2 && x[1] > 0 && x[2] > 0 && size[0] > 0 && size[1] > 0 &&
      size[0] <= kMost && size[1] <= kMost)
    return;
  throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} with size {}.",
                                                    call.described(), to_string(x), to_string(size)));
}

void import_resize(NodeImportCall& call, Taps taps, bool gives_f32) {
  ir::Value* x = call.operand(0);
  const Shape size = operand_sizes(call, 1, "size");
  check_images(call, x->type().shape, size);
  if (gives_f32) x = call.cast(x, DType::kF32);
  ir::Value* y = resized(call, x, size, taps);
  call.set_result(0, y == call.operand(0) ? call.op("nop", {y}) : y);
}

// Of bilinear resizes the operand is the image itself, whose type the gradient has.
void import_bilinear_gradient(NodeImportCall& call) {
  ir::Value* dy = call.operand(0);
  const ir::Type& image = call.operand(1)->type();
  const Shape size = image.shape.size() == 4 ? Shape{image.shape[1], image.shape[2]} : Shape{};
  check_images(call, dy->type().shape, size);
  ir::Value* dx = call.cast(resized_gradient(call, dy, size, linear_taps), image.dtype);
  call.set_result(0, dx == dy ? call.op("nop", {dy}) : dx);
}

void import_nearest_gradient(NodeImportCall& call) {
  ir::Value* dy = call.operand(0);
  const Shape size = operand_sizes(call, 1, "size");
  check_images(call, dy->type().shape, size);
  ir::Value* dx = resized_gradient(call, dy, size, nearest_taps);
  call.set_result(0, dx == dy ? call.op("nop", {dy}) : dx);
}

struct InterpolationTensorflowImporters {
  InterpolationTensorflowImporters() {
    register_tensorflow_importer("ResizeBilinear",
                                 [](NodeImportCall& call) { import_resize(call, linear_taps, true); });
    register_tensorflow_importer("ResizeNearestNeighbor",
                                 [](NodeImportCall& call) { import_resize(call, nearest_taps, false); });
    register_tensorflow_importer("ResizeBilinearGrad", import_bilinear_gradient);
    register_tensorflow_importer("ResizeNearestNeighborGrad", import_nearest_gradient);
  }
};
const InterpolationTensorflowImporters interpolation_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
