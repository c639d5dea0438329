// Importers of TensorFlow's op types on shapes: what is a tensor of sizes or axes there is an attribute here.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

[[noreturn]] void shape_mismatch(NodeImportCall& call, const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} {}.", call.described(), what));
}

void import_reshape(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Shape shape = call.operand_integers(1, "shape");
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end()) {
    *open = 1;
    const int64_t known = element_count(shape), all = x->type().elements();
    *open = known == 0 ? 0 : all / known;
  }
  if (element_count(shape) != x->type().elements())
    shape_mismatch(call, fmt::format("of {} to {}", to_string(x->type().shape), to_string(shape)));
  call.set_result(0, reshaped(call, x, shape));
}

void import_expand_dims(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Shape shape = x->type().shape;
  shape.insert(shape.begin() + operand_axis(call, 1, shape.size() + 1), 1);
  call.set_result(0, reshaped(call, x, shape));
}

void import_squeeze(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& from = x->type().shape;
  std::vector<int64_t> dims = call.integers("squeeze_dims", {});
  for (int64_t& dim : dims) dim = node_dim(call, dim, from.size());
  Shape shape;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool is_named = dims.empty() ? from[d] == 1 : std::ranges::count(dims, static_cast<int64_t>(d)) > 0;
    if (is_named && from[d] != 1)
      shape_mismatch(call, fmt::format("of dimension {} of {}, which is not 1", d, to_string(from)));
    if (!is_named) shape.push_back(from[d]);
  }
  call.set_result(0, reshaped(call, x, shape));
}

void import_transpose(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  std::vector<int64_t> perm = call.operand_integers(1, "perm");
  for (int64_t& dim : perm) dim = node_dim(call, dim, perm.size());
  if (perm.size() != x->type().shape.size())
    shape_mismatch(call, fmt::format("of {} has perm {}", to_string(x->type().shape), to_string(perm)));
  call.set_result(0, transposed(call, x, perm));
}

// --- put together, taken apart

void import_concat(NodeImportCall& call, int first, int axis) {
  std::vector<ir::Value*> values;
  const int count = call.operand_count() - 1;
  for (int i = 0; i < count; ++i) values.push_back(call.operand(first + i));
  if (values.empty()) shape_mismatch(call, "of no tensors");
  call.set_result(0,
                  concatenated(call, values,
                               operand_axis(call, axis < 0 ? count : axis, values[0]->type().shape.size())));
}

void import_pack(NodeImportCall& call) {
  std::vector<ir::Value*> values;
  const Shape first = call.operand(0)->type().shape;
  const int64_t axis = axis_of(call, "axis", 0, first.size() + 1);
  Shape shape = first;
  shape.insert(shape.begin() + axis, 1);
  for (int i = 0; i < call.operand_count(); ++i) {
    if (call.operand(i)->type().shape != first)
      shape_mismatch(call,
                     fmt::format("of {} and {}", to_string(first), to_string(call.operand(i)->type().shape)));
    values.push_back(reshaped(call, call.operand(i), shape));
  }
  call.set_result(0, concatenated(call, values, axis));
}

void import_unpack(NodeImportCall& call) {
  call.ignore("num");
  ir::Value* x = call.operand(0);
  Shape shape = x->type().shape;
  const int64_t axis = axis_of(call, "axis", 0, shape.size());
  if (shape[axis] != call.result_count())
    shape_mismatch(call, fmt::format("of {} elements into {}", shape[axis], call.result_count()));
  shape.erase(shape.begin() + axis);
  for (int i = 0; i < call.result_count(); ++i)
    if (call.has_result(i)) call.set_result(i, reshaped(call, sliced(call, x, axis, i, 1), shape));
}

void set_pieces(NodeImportCall& call, ir::Value* x, int64_t axis, const std::vector<int64_t>& sizes) {
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != x->type().shape[axis] ||
      std::ssize(sizes) != call.result_count())
    shape_mismatch(call, fmt::format("of {} elements into {} pieces of {}", x->type().shape[axis],
                                     call.result_count(), to_string(sizes)));
  int64_t start = 0;
  for (int i = 0; i < call.result_count(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    if (call.has_result(i)) call.set_result(i, sliced(call, x, axis, start, size));
    start += size;
  }
}

void import_split(NodeImportCall& call) {
  ir::Value* x = call.operand(1);
  const int64_t axis = operand_axis(call, 0, x->type().shape.size()), count = call.result_count();
  if (count == 0) shape_mismatch(call, "into no pieces");
  set_pieces(call, x, axis, std::vector<int64_t>(static_cast<size_t>(count), x->type().shape[axis] / count));
}

void import_split_of_sizes(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const int64_t axis = operand_axis(call, 2, x->type().shape.size());
  std::vector<int64_t> sizes = call.operand_integers(1, "size_splits");
  if (const auto open = std::ranges::find(sizes, -1); open != sizes.end()) {
    *open = 0;
    *open = x->type().shape[axis] - std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  }
  set_pieces(call, x, axis, sizes);
}

// --- repeated, filled up

// [a, b] repeated [m, n] times is [1, a, 1, b] expanded to [m, a, n, b] in another shape.
void import_tile(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape from = x->type().shape;
  const std::vector<int64_t> repeats = operand_sizes(call, 1, "multiples");
  if (repeats.size() != from.size())
    shape_mismatch(call, fmt::format("of {} has multiples {}", to_string(from), to_string(repeats)));
  Shape split, repeated, shape;
  for (size_t d = 0; d < from.size(); ++d) {
    split.insert(split.end(), {1, from[d]});
    repeated.insert(repeated.end(), {repeats[d], from[d]});
    shape.push_back(repeats[d] * from[d]);
  }
  call.set_result(0, reshaped(call, expanded(call, reshaped(call, x, split), repeated), shape));
}

void import_broadcast_to(NodeImportCall& call) {
  call.set_result(0, expanded(call, call.operand(0), operand_sizes(call, 1, "shape")));
}

struct Border {
  std::vector<int64_t> low, high;
};
Border read_border(NodeImportCall& call, size_t rank) {
  const std::vector<int64_t> pairs = operand_sizes(call, 1, "paddings");
  if (pairs.size() != 2 * rank)
    shape_mismatch(call, fmt::format("of {} dimensions has paddings {}", rank, to_string(pairs)));
  Border border;
  for (size_t d = 0; d < rank; ++d) {
    border.low.push_back(pairs[2 * d]);
    border.high.push_back(pairs[2 * d + 1]);
  }
  return border;
}

void import_pad(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Border border = read_border(call, x->type().shape.size());
  const double value = call.has_operand(2) ? call.operand_real(2, "constant_values") : 0.0;
  call.set_result(0, call.op("pad", {x}, {{"low", border.low}, {"high", border.high}, {"value", value}}));
}

// The elements next to an edge in reverse order: with the one at the edge (symmetric) or from the next on.
int64_t mirror_offset(NodeImportCall& call) {
  const std::string mode = call.text("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") call.unsupported(fmt::format("mode \"{}\"", mode));
  return mode == "REFLECT" ? 1 : 0;
}

ir::Value* flipped(NodeImportCall& call, ir::Value* x, int64_t dim) {
  return call.op("flip", {x}, {{"dims", Shape{dim}}});
}

void import_mirror_pad(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Border border = read_border(call, x->type().shape.size());
  const int64_t offset = mirror_offset(call);
  for (size_t d = 0; d < border.low.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const int64_t low = border.low[d], high = border.high[d], size = x->type().shape[d];
    if (low == 0 && high == 0) continue;
    if (std::max(low, high) > size - offset)
      shape_mismatch(call, fmt::format("of {} elements has paddings {} and {}", size, low, high));
    std::vector<ir::Value*> pieces{x};
    if (low > 0) pieces.insert(pieces.begin(), flipped(call, sliced(call, x, dim, offset, low), dim));
    if (high > 0) pieces.push_back(flipped(call, sliced(call, x, dim, size - offset - high, high), dim));
    x = concatenated(call, pieces, dim);
  }
  call.set_result(0, x);
}

// Each edge is added where it came from.
void import_mirror_pad_gradient(NodeImportCall& call) {
  ir::Value* dy = call.operand(0);
  const size_t rank = dy->type().shape.size();
  const Border border = read_border(call, rank);
  const int64_t offset = mirror_offset(call);
  for (size_t d = 0; d < rank; ++d) {
    const auto dim = static_cast<int64_t>(d);
    const int64_t low = border.low[d], high = border.high[d];
    const int64_t size = dy->type().shape[d] - low - high;
    ir::Value* sum = sliced(call, dy, dim, low, size);
    const auto add = [&](int64_t from, int64_t count, int64_t to) {
      if (count == 0) return;
      ir::Value* edge = flipped(call, sliced(call, dy, dim, from, count), dim);
      Shape before(rank, 0), behind(rank, 0);
      before[d] = to;
      behind[d] = size - to - count;
      sum =
          call.op("add", {sum, call.op("pad", {edge}, {{"low", before}, {"high", behind}, {"value", 0.0}})});
    };
    add(0, low, offset);
    add(low + size, high, size - offset - high);
    dy = sum;
  }
  call.set_result(0, dy);
}

// --- turned round

void import_reverse(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  std::vector<int64_t> dims = call.operand_integers(1, "axis");
  for (int64_t& dim : dims) dim = node_dim(call, dim, x->type().shape.size());
  std::ranges::sort(dims);
  call.set_result(0, dims.empty() ? call.op("nop", {x}) : call.op("flip", {x}, {{"dims", dims}}));
}

void import_roll(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const std::vector<int64_t> shifts = call.operand_integers(1, "shift"),
                             dims = call.operand_integers(2, "axis");
  if (shifts.size() != dims.size())
    shape_mismatch(call, fmt::format("has shifts {} of axes {}", to_string(shifts), to_string(dims)));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = node_dim(call, dims[i], x->type().shape.size()), size = x->type().shape[dim];
    const int64_t moved = size == 0 ? 0 : ((shifts[i] % size) + size) % size;
    if (moved == 0) continue;
    x = concatenated(call, {sliced(call, x, dim, size - moved, moved), sliced(call, x, dim, 0, size - moved)},
                     dim);
  }
  call.set_result(0, x);
}

// --- blocks. Channels are last: a block of [B, ...] is what the channels are cut into.

struct Blocks {
  ir::Value* x;
  int64_t n, h, w, c, size;
  bool is_last;
};
Blocks read_blocks(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const bool is_last = is_channels_last(call);
  if (x->type().shape.size() != 4)
    shape_mismatch(call, fmt::format("of {}, which has not four dimensions", to_string(x->type().shape)));
  if (!is_last) x = channels_last(call, x);
  const Shape& shape = x->type().shape;
  return {x, shape[0], shape[1], shape[2], shape[3], call.integer("block_size"), is_last};
}
void set_blocks(NodeImportCall& call, const Blocks& b, ir::Value* y) {
  call.set_result(0, b.is_last ? y : channels_first(call, y));
}

void import_space_to_depth(NodeImportCall& call) {
  const Blocks b = read_blocks(call);
  if (b.size < 1 || b.h % b.size != 0 || b.w % b.size != 0)
    shape_mismatch(call, fmt::format("of {} by {} with blocks of {}", b.h, b.w, b.size));
  const int64_t h = b.h / b.size, w = b.w / b.size;
  ir::Value* y = transposed(call, reshaped(call, b.x, {b.n, h, b.size, w, b.size, b.c}), {0, 1, 3, 2, 4, 5});
  set_blocks(call, b, reshaped(call, y, {b.n, h, w, b.c * b.size * b.size}));
}

void import_depth_to_space(NodeImportCall& call) {
  const Blocks b = read_blocks(call);
  if (b.size < 1 || b.c % (b.size * b.size) != 0)
    shape_mismatch(call, fmt::format("of {} channels with blocks of {}", b.c, b.size));
  const int64_t c = b.c / (b.size * b.size);
  ir::Value* y =
      transposed(call, reshaped(call, b.x, {b.n, b.h, b.w, b.size, b.size, c}), {0, 1, 3, 2, 4, 5});
  set_blocks(call, b, reshaped(call, y, {b.n, b.h * b.size, b.w * b.size, c}));
}

// Spatial dimensions 1, 2, ... in blocks, which go to the batch: dilated convolutions are built of these.
void import_space_to_batch(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const std::vector<int64_t> block = operand_sizes(call, 1, "block_shape"),
                             pairs = operand_sizes(call, 2, "paddings");
  const size_t count = block.size();
  Shape low(x->type().shape.size(), 0), high = low;
  if (low.size() < count + 1 || pairs.size() != 2 * count)
    shape_mismatch(call, fmt::format("of {} with blocks {}", to_string(x->type().shape), to_string(block)));
  for (size_t d = 0; d < count; ++d) {
    low[d + 1] = pairs[2 * d];
    high[d + 1] = pairs[2 * d + 1];
  }
  x = call.op("pad", {x}, {{"low", low}, {"high", high}, {"value", 0.0}});
  const Shape padded = x->type().shape;
  Shape split{padded[0]}, shape = padded;
  std::vector<int64_t> perm, rest;
  for (size_t d = 0; d < count; ++d) {
    if (block[d] < 1 || padded[d + 1] % block[d] != 0)
      shape_mismatch(call, fmt::format("of {} elements with blocks of {}", padded[d + 1], block[d]));
    shape[d + 1] = padded[d + 1] / block[d];
    shape[0] *= block[d];
    split.insert(split.end(), {shape[d + 1], block[d]});
    perm.push_back(2 * static_cast<int64_t>(d) + 2);
    rest.push_back(2 * static_cast<int64_t>(d) + 1);
  }
  perm.push_back(0);
  perm.insert(perm.end(), rest.begin(), rest.end());
  for (size_t d = count + 1; d < padded.size(); ++d) {
    perm.push_back(std::ssize(split));
    split.push_back(padded[d]);
  }
  call.set_result(0, reshaped(call, transposed(call, reshaped(call, x, split), perm), shape));
}

void import_batch_to_space(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const std::vector<int64_t> block = operand_sizes(call, 1, "block_shape"),
                             pairs = operand_sizes(call, 2, "crops");
  const Shape from = x->type().shape;
  const size_t count = block.size();
  const int64_t blocks = element_count(block);
  if (from.size() < count + 1 || pairs.size() != 2 * count || blocks < 1 || from[0] % blocks != 0)
    shape_mismatch(call, fmt::format("of {} with blocks {}", to_string(from), to_string(block)));
  Shape split(block.begin(), block.end()), shape = from;
  split.push_back(from[0] / blocks);
  split.insert(split.end(), from.begin() + 1, from.end());
  std::vector<int64_t> perm{static_cast<int64_t>(count)};
  shape[0] = from[0] / blocks;
  for (size_t d = 0; d < count; ++d) {
    perm.insert(perm.end(), {static_cast<int64_t>(count + 1 + d), static_cast<int64_t>(d)});
    shape[d + 1] = from[d + 1] * block[d];
  }
  for (size_t d = 2 * count + 1; d < split.size(); ++d) perm.push_back(static_cast<int64_t>(d));
  x = reshaped(call, transposed(call, reshaped(call, x, split), perm), shape);
  for (size_t d = 0; d < count; ++d)
    x = sliced(call, x, static_cast<int64_t>(d + 1), pairs[2 * d],
               shape[d + 1] - pairs[2 * d] - pairs[2 * d + 1]);
  call.set_result(0, x);
}

// Over which dimensions the gradients of two operands of shapes that are known here are summed.
void import_broadcast_gradients(NodeImportCall& call) {
  const std::vector<int64_t> shapes[2] = {operand_sizes(call, 0, "s0"), operand_sizes(call, 1, "s1")};
  const size_t rank = std::max(shapes[0].size(), shapes[1].size());
  for (int i = 0; i < 2; ++i) {
    const std::vector<int64_t>&own = shapes[i], &other = shapes[1 - i];
    std::vector<int64_t> dims;
    for (size_t d = 0; d < rank; ++d) {
      const auto size = [&](const std::vector<int64_t>& shape) {
        return d + shape.size() < rank ? 1 : shape[d + shape.size() - rank];
      };
      if (d + own.size() < rank || (size(own) == 1 && size(other) != 1))
        dims.push_back(static_cast<int64_t>(d));
    }
    if (call.has_result(i)) call.set_constant(i, constant_of(dims));
  }
}

struct ShapeTensorflowImporters {
  ShapeTensorflowImporters() {
    register_tensorflow_importer("Reshape", import_reshape);
    register_tensorflow_importer("ExpandDims", import_expand_dims);
    register_tensorflow_importer("Squeeze", import_squeeze);
    register_tensorflow_importer("Transpose", import_transpose);
    register_tensorflow_importer("ConcatV2", [](NodeImportCall& call) { import_concat(call, 0, -1); });
    register_tensorflow_importer("Concat", [](NodeImportCall& call) { import_concat(call, 1, 0); });
    register_tensorflow_importer("BroadcastGradientArgs", import_broadcast_gradients);
    register_tensorflow_importer("Pack", import_pack);
    register_tensorflow_importer("Unpack", import_unpack);
    register_tensorflow_importer("Split", import_split);
    register_tensorflow_importer("SplitV", import_split_of_sizes);
    register_tensorflow_importer("Tile", import_tile);
    register_tensorflow_importer("BroadcastTo", import_broadcast_to);
    register_tensorflow_importer("Pad", import_pad);
    register_tensorflow_importer("PadV2", import_pad);
    register_tensorflow_importer("MirrorPad", import_mirror_pad);
    register_tensorflow_importer("MirrorPadGrad", import_mirror_pad_gradient);
    register_tensorflow_importer("ReverseV2", import_reverse);
    register_tensorflow_importer("Roll", import_roll);
    register_tensorflow_importer("SpaceToDepth", import_space_to_depth);
    register_tensorflow_importer("DepthToSpace", import_depth_to_space);
    register_tensorflow_importer("SpaceToBatchND", import_space_to_batch);
    register_tensorflow_importer("BatchToSpaceND", import_batch_to_space);
  }
};
const ShapeTensorflowImporters shape_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
