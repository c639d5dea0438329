// Importers of TensorFlow's slices, of their gradient and of assignments to them. Places may be known only when the program runs; sizes
// may not.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "ops/definition/tensorflow_nodes.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

// A strided slice of `from`: what is taken of each dimension, and the shape that this is seen with.
struct Region {
  std::vector<int64_t> starts, sizes, steps;  // from the front; steps are positive
  std::vector<int64_t> turned;                // dimensions that are read from the end
  Shape shape;
  // Elements of `begin` that say the only place taken of a dimension, which the program computes: (dimension, element).
  std::vector<std::pair<int64_t, int64_t>> computed;
};

struct Masks {
  int64_t begin, end, ellipsis, new_axis, shrink;
  static bool has(int64_t mask, size_t i) { return ((mask >> i) & 1) != 0; }
};

Masks read_masks(NodeImportCall& call) {
  return {call.integer("begin_mask", 0), call.integer("end_mask", 0), call.integer("ellipsis_mask", 0),
          call.integer("new_axis_mask", 0), call.integer("shrink_axis_mask", 0)};
}

// Operands `first`, `first` + 1 and `first` + 2 are begin, end and strides.
Region read_region(NodeImportCall& call, const Shape& from, int first) {
  const Masks masks = read_masks(call);
  const bool is_stated = call.constant(first) != nullptr && call.constant(first + 1) != nullptr;
  const std::vector<int64_t> strides = call.operand_integers(first + 2, "strides");
  const size_t count = strides.size();
  std::vector<int64_t> begin(count, 0), end(count, 0);
  if (is_stated) {
    begin = call.clamped_operand_integers(first, "begin");
    end = call.clamped_operand_integers(first + 1, "end");
  }
  size_t named = 0, dots = count;
  for (size_t i = 0; i < count; ++i) {
    if (Masks::has(masks.ellipsis, i)) dots = i;
    named += !Masks::has(masks.ellipsis, i) && !Masks::has(masks.new_axis, i);
  }
  if (begin.size() != count || end.size() != count || named > from.size())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} with {} places.",
                                                      call.described(), to_string(from), count));
  Region r{Shape(from.size(), 0), from, Shape(from.size(), 1), {}, {}, {}};
  size_t d = 0;
  const auto keep = [&](size_t dims) {
    for (; dims > 0; --dims) r.shape.push_back(from[d++]);
  };
  for (size_t i = 0; i < count; ++i) {
    if (i == dots) {
      keep(from.size() - named);
      continue;
    }
    if (Masks::has(masks.new_axis, i)) {
      r.shape.push_back(1);
      continue;
    }
    const int64_t length = from[d], step = strides[i];
    const auto dim = static_cast<int64_t>(d++);
    if (Masks::has(masks.shrink, i)) {
      if (!is_stated) {
        r.computed.emplace_back(dim, static_cast<int64_t>(i));
      } else {
        const int64_t at = begin[i] < 0 ? begin[i] + length : begin[i];
        if (at < 0 || at >= length)
          throw Error(ErrorCode::kTypeMismatch,
                      fmt::format("index out of range: {} has place {} of {} elements.", call.described(),
                                  begin[i], length));
        r.starts[dim] = at;
      }
      r.sizes[dim] = 1;
      continue;
    }
    const bool is_open = Masks::has(masks.begin, i) && Masks::has(masks.end, i);
    if (!is_stated && !is_open)
      call.unsupported(
          "places that are computed when the program runs, of more than one element: the size of the "
          "result has to be known (tf.slice with a constant size)");
    if (step == 0) call.unsupported("a stride of 0");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + length : at, low, high); };
    const int64_t start = Masks::has(masks.begin, i) ? (step > 0 ? low : high) : place(begin[i]);
    const int64_t stop = Masks::has(masks.end, i) ? (step > 0 ? high : low) : place(end[i]);
    const int64_t width = std::abs(step);
    const int64_t size = std::max<int64_t>(0, ((step > 0 ? stop - start : start - stop) + width - 1) / width);
    r.starts[dim] = step > 0 || size == 0 ? std::max<int64_t>(start, 0) : start + (size - 1) * step;
    r.sizes[dim] = size;
    r.steps[dim] = width;
    if (step < 0 && size > 1) r.turned.push_back(dim);
    r.shape.push_back(size);
  }
  keep(from.size() - d);
  return r;
}

Attributes slice_of(const Region& r) {
  return {{"starts", r.starts}, {"sizes", r.sizes}, {"steps", r.steps}};
}

ir::Value* turned(NodeImportCall& call, const Region& r, ir::Value* x) {
  return r.turned.empty() ? x : call.op("flip", {x}, {{"dims", r.turned}});
}

// Places from `start` on (an i32 of no dimensions), so many.
ir::Value* places_from(NodeImportCall& call, ir::Value* start, int64_t size) {
  ir::Value* places = call.op("iota", {}, {{"shape", Shape{size}}, {"dtype", DType::kI32}});
  return call.op("add", {places, start});
}

void import_strided_slice(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Region r = read_region(call, x->type().shape, 1);
  for (const auto& [dim, element] : r.computed) {
    ir::Value* at = reshaped(call, operand_element(call, 1, element), {1});
    x = call.op("index_select", {x, index_from_front(call, at, x->type().shape[dim])}, {{"dim", dim}});
  }
  const Shape& shape = x->type().shape;
  if (r.sizes != shape) x = call.op("slice", {x}, slice_of(r));
  call.set_result(0, reshaped(call, turned(call, r, x), r.shape));
}

// `into` with dy where the slice is.
ir::Value* written(NodeImportCall& call, const Region& r, ir::Value* into, ir::Value* dy) {
  if (r.computed.empty()) return call.op("slice_scatter", {into, dy}, slice_of(r));
  const auto [dim, element] = r.computed[0];
  ir::Value* at = reshaped(call, operand_element(call, 1, element), {1});
  return call.op("index_copy", {into, index_from_front(call, at, into->type().shape[dim]), dy},
                 {{"dim", dim}});
}

void import_strided_slice_gradient(NodeImportCall& call) {
  const Shape shape = operand_sizes(call, 0, "shape");
  const Region r = read_region(call, shape, 1);
  ir::Value* dy = turned(call, r, reshaped(call, call.operand(4), r.sizes));
  if (r.computed.empty() && std::ranges::all_of(r.steps, [](int64_t step) { return step == 1; })) {
    Shape high(shape.size());
    for (size_t d = 0; d < high.size(); ++d) high[d] = shape[d] - r.starts[d] - r.sizes[d];
    return call.set_result(0, call.op("pad", {dy}, {{"low", r.starts}, {"high", high}, {"value", 0.0}}));
  }
  Region whole = r;  // of what is left when one computed dimension is gone at a time
  if (r.computed.size() > 1) call.unsupported("several places that are computed when the program runs");
  if (!r.computed.empty()) {
    whole.computed.clear();
    Shape inner = shape;
    inner[r.computed[0].first] = 1;
    dy = written(call, whole, call.builder().splat({dy->type().dtype, inner}, 0.0), dy);
  }
  call.set_result(0, written(call, r, call.builder().splat({dy->type().dtype, shape}, 0.0), dy));
}

void import_strided_slice_assign(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Region r = read_region(call, x->type().shape, 1);
  if (!r.computed.empty()) call.unsupported("places that are computed when the program runs");
  ir::Value* value = expanded(call, call.operand(4), r.shape);
  call.assign(0, written(call, r, x, turned(call, r, reshaped(call, value, r.sizes))));
}

// A size of -1 is all that is left, from a place that is stated.
void import_slice(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape shape = x->type().shape;
  std::vector<int64_t> sizes = call.operand_integers(2, "size"), begin(shape.size(), 0);
  const bool is_stated = call.constant(1) != nullptr;
  if (is_stated) begin = call.operand_integers(1, "begin");
  if (begin.size() != shape.size() || sizes.size() != shape.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} with {} places and {} sizes.", call.described(),
                            to_string(shape), begin.size(), sizes.size()));
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (sizes[d] == -1) {
      if (!is_stated) call.unsupported("a size of -1 from a place that is computed when the program runs");
      sizes[d] = shape[d] - begin[d];
    }
    if (is_stated) {
      if (begin[d] < 0 || sizes[d] < 0 || begin[d] + sizes[d] > shape[d])
        throw Error(ErrorCode::kTypeMismatch,
                    fmt::format("index out of range: {} takes {} elements from {} on; there are {}.",
                                call.described(), sizes[d], begin[d], shape[d]));
      x = sliced(call, x, dim, begin[d], sizes[d]);
    } else if (sizes[d] != shape[d]) {
      ir::Value* places = places_from(call, operand_element(call, 1, dim), sizes[d]);
      x = call.op("index_select", {x, places}, {{"dim", dim}});
    }
  }
  call.set_result(0, x == call.operand(0) ? call.op("nop", {x}) : x);
}

struct SliceTensorflowImporters {
  SliceTensorflowImporters() {
    register_tensorflow_importer("Slice", import_slice);
    register_tensorflow_importer("StridedSlice", import_strided_slice);
    register_tensorflow_importer("StridedSliceGrad", import_strided_slice_gradient);
    register_tensorflow_importer("ResourceStridedSliceAssign", import_strided_slice_assign);
  }
};
const SliceTensorflowImporters slice_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
