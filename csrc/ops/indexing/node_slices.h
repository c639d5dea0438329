// Slices of a tensor that a node names by places: what ONNX's and TensorFlow's lookups share.
#pragma once

#include "ops/definition/node_support.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {

// Checks places that the model states in dimensions of `extents` (the last dimension of operand i has one place
// for each, unless `extents` is one). Returns whether some of them count from the end.
bool check_places(NodeImportCall& call, int i, const Shape& extents);
inline bool check_places(NodeImportCall& call, int i, int64_t extent) {
  return check_places(call, i, Shape{extent});
}

// The last dimension of the index says where: [..., k] names slices of the first k dimensions of x behind the
// `batch` ones, which x and index share. Places of slices of x reshaped to [slices, rest...], in one row.
struct Slices {
  ir::Value *x, *index;
  Shape named, rest;  // what the index has in front of its last dimension; dimensions of a slice
};
Slices named_slices(NodeImportCall& call, ir::Value* x, int index, size_t batch);  // `index`: an operand
ir::Value* gathered(NodeImportCall& call, const Slices& s);

}  // namespace ipu::ops
