// Importers of ONNX's operators on shapes: what is a tensor of sizes there is an attribute here.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// -1 takes what is left; 0 keeps the size of x, unless `allowzero` (from version 14) says it is a size.
void import_reshape(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Shape shape = call.operand_integers(1, "shape");
  const bool zero_is_size = call.version() >= 14 && call.integer("allowzero", 0) == 1;
  const Shape& from = x->type().shape;
  int64_t rest = x->type().elements();
  size_t open = shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !zero_is_size && d < from.size()) shape[d] = from[d];
    if (shape[d] != -1) {
      rest = shape[d] == 0 ? 0 : rest / shape[d];
    } else if (open == shape.size()) {
      open = d;
    } else {
      call.unsupported(fmt::format("shape {} with two sizes left open", to_string(shape)));
    }
  }
  if (open < shape.size()) shape[open] = rest;
  call.set_result(0, reshaped(call, x, shape));
}

void import_flatten(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = call.integer("axis", 1);
  const int64_t first =
      call.is_popart() || call.version() >= 11 ? -rank : 0;  // from the end since version 11
  if (axis < first || axis > rank)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("dimension out of range: axis {} of {}, x has {} dimensions.", axis,
                            call.described(), rank));
  if (axis < 0) axis += rank;
  const auto size = [&](int64_t from, int64_t to) {
    return std::accumulate(shape.begin() + from, shape.begin() + to, int64_t{1}, std::multiplies<>());
  };
  call.set_result(0, reshaped(call, x, {size(0, axis), size(axis, rank)}));
}

void import_squeeze(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& from = x->type().shape;
  const std::optional<std::vector<int64_t>> axes = axes_of(call, 1, 13, from.size());
  Shape shape;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool is_named =
        axes ? std::binary_search(axes->begin(), axes->end(), static_cast<int64_t>(d)) : from[d] == 1;
    if (is_named && from[d] != 1)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of dimension {} of {}, which is not 1.", call.described(),
                              d, to_string(from)));
    if (!is_named) shape.push_back(from[d]);
  }
  call.set_result(0, reshaped(call, x, shape));
}

void import_unsqueeze(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Shape shape = x->type().shape;
  const size_t count =
      call.version() < 13 ? call.integers("axes").size() : call.operand_integers(1, "axes").size();
  const std::optional<std::vector<int64_t>> axes = axes_of(call, 1, 13, shape.size() + count);
  for (const int64_t axis : *axes) shape.insert(shape.begin() + axis, 1);
  call.set_result(0, reshaped(call, x, shape));
}

void import_transpose(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  std::vector<int64_t> perm(x->type().shape.size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = call.integers("perm", perm);
  if (perm.size() != x->type().shape.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} has perm {}.", call.described(),
                            to_string(x->type().shape), to_string(perm)));
  call.set_result(0, transposed(call, x, perm));
}

void import_concat(NodeImportCall& call) {
  std::vector<ir::Value*> values;
  for (int i = 0; i < call.operand_count(); ++i) values.push_back(call.operand(i));
  if (values.empty()) call.operand(0);  // says that it is missing
  call.set_result(
      0, concatenated(call, values, node_dim(call, call.integer("axis"), values[0]->type().shape.size())));
}

// Sizes are an attribute before version 13 and an operand from then on. Without them the pieces are equal; from
// version 18 on the last may be smaller.
void import_split(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const int64_t axis = axis_of(call, "axis", 0, x->type().shape.size()), size = x->type().shape[axis];
  int64_t count = call.result_count();
  std::vector<int64_t> sizes;
  if (call.version() < 13) {
    sizes = call.integers("split", {});
  } else if (call.has_operand(1)) {
    sizes = operand_sizes(call, 1, "split");
  }
  if (sizes.empty()) {
    if (call.version() >= 18) count = call.integer("num_outputs", count);
    if (count < 1 || count != call.result_count() || (call.version() < 18 && size % count != 0))
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of {} elements into {} equal pieces.", call.described(),
                              size, count));
    const int64_t piece = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(size - i * piece, 0, piece));
  }
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != size ||
      std::ssize(sizes) != call.result_count())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} elements into {} pieces of {}.", call.described(), size,
                            call.result_count(), to_string(sizes)));
  int64_t start = 0;
  for (int i = 0; i < call.result_count(); ++i) {
    call.set_result(i, sliced(call, x, axis, start, sizes[static_cast<size_t>(i)]));
    start += sizes[static_cast<size_t>(i)];
  }
}

// Both shapes broadcast: a size of 1 that is asked for keeps that of x.
void import_expand(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  call.set_result(0, expanded(call, x, broadcast_shapes(x->type().shape, operand_sizes(call, 1, "shape"))));
}

// [a, b] repeated [m, n] times is [1, a, 1, b] expanded to [m, a, n, b] in another shape.
void import_tile(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape from = x->type().shape;
  const std::vector<int64_t> repeats = operand_sizes(call, 1, "repeats");
  if (repeats.size() != from.size())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} has repeats {}.",
                                                      call.described(), to_string(from), to_string(repeats)));
  if (call.is_popart() && std::find(repeats.begin(), repeats.end(), 0) != repeats.end())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("value out of range: {} has repeats {}; each is at least 1.", call.described(),
                            to_string(repeats)));
  Shape split, repeated, shape;
  for (size_t d = 0; d < from.size(); ++d) {
    split.insert(split.end(), {1, from[d]});
    repeated.insert(repeated.end(), {repeats[d], from[d]});
    shape.push_back(repeats[d] * from[d]);
  }
  call.set_result(0, reshaped(call, expanded(call, reshaped(call, x, split), repeated), shape));
}

struct Blocks {
  ir::Value* x;
  int64_t n, c, h, w, size;
};
Blocks read_blocks(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t size = call.integer("blocksize");
  if (shape.size() != 4 || size < 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} with blocksize {}; x has four dimensions.",
                            call.described(), to_string(shape), size));
  return {x, shape[0], shape[1], shape[2], shape[3], size};
}

[[noreturn]] void no_whole_blocks(NodeImportCall& call, const Blocks& b) {
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("shape mismatch: {} of {} with blocksize {}, which makes no whole blocks.",
                          call.described(), to_string(b.x->type().shape), b.size));
}

void import_space_to_depth(NodeImportCall& call) {
  const Blocks b = read_blocks(call);
  if (b.h % b.size != 0 || b.w % b.size != 0) no_whole_blocks(call, b);
  const int64_t h = b.h / b.size, w = b.w / b.size;
  ir::Value* y = transposed(call, reshaped(call, b.x, {b.n, b.c, h, b.size, w, b.size}), {0, 3, 5, 1, 2, 4});
  call.set_result(0, reshaped(call, y, {b.n, b.c * b.size * b.size, h, w}));
}

// The block is in front of the channels (mode DCR) or behind them (CRD, from version 11 on).
void import_depth_to_space(NodeImportCall& call) {
  const Blocks b = read_blocks(call);
  const std::string mode = call.version() < 11 ? "DCR" : call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.unsupported("mode '" + mode + "'");
  const int64_t channels = b.c / (b.size * b.size);
  if (channels * b.size * b.size != b.c) no_whole_blocks(call, b);
  ir::Value* y = mode == "DCR"
                     ? transposed(call, reshaped(call, b.x, {b.n, b.size, b.size, channels, b.h, b.w}),
                                  {0, 3, 4, 1, 5, 2})
                     : transposed(call, reshaped(call, b.x, {b.n, channels, b.size, b.size, b.h, b.w}),
                                  {0, 1, 4, 2, 5, 3});
  call.set_result(0, reshaped(call, y, {b.n, channels, b.h * b.size, b.w * b.size}));
}

struct ShapeOnnxImporters {
  ShapeOnnxImporters() {
    register_onnx_importer("SpaceToDepth", {6}, import_space_to_depth);
    register_onnx_importer("DepthToSpace", {6}, import_depth_to_space);
    register_onnx_importer("Reshape", {6}, import_reshape);
    register_onnx_importer("Flatten", {6}, import_flatten);
    register_onnx_importer("Squeeze", {6}, import_squeeze);
    register_onnx_importer("Unsqueeze", {6}, import_unsqueeze);
    register_onnx_importer("Transpose", {6}, import_transpose);
    register_onnx_importer("Concat", {6}, import_concat);
    register_onnx_importer("Split", {6}, import_split);
    register_onnx_importer("Expand", {8}, import_expand);
    register_onnx_importer("Tile", {6}, import_tile);
  }
};
const ShapeOnnxImporters shape_onnx_importers;

const PopartOperators shape_popart = {{
    {"Reshape", "5", "data:ANY !shape:COUNT", "reshaped:ANY"},
    {"Flatten", "1 9 11", "input:ANY", "output:ANY", "yes", "axis"},
    {"Squeeze", "1 11", "data:ANY", "squeezed:ANY", "yes", "axes"},
    {"Unsqueeze", "1 11", "data:ANY", "expanded:ANY", "yes", "axes"},
    {"Transpose", "1", "data:NB", "transposed:NB", "yes", "perm"},
    {"Concat", "1 4 11", "inputs:NB", "concat_result:NB", "yes", "axis"},
    {"Split", "2 11", "input:NB", "outputs:NB", "yes", "axis split"},
    {"Tile", "1 6", "input:NB !repeats:COUNT", "output:NB"},
    {"Expand", "8", "input:NB !shape:COUNT", "output:NB"},
    {"DepthToSpace", "1 11", "input:NB", "output:NB", "yes", "blocksize mode=DCR|CRD", "rewritten"},
    {"SpaceToDepth", "1", "input:NB", "output:NB", "yes", "blocksize", "rewritten"},
}};

}  // namespace
}  // namespace ipu::ops
