// Pieces shared by type rules, reference values and importers of ops that see whole tensors (shape,
// reductions, matmul, convolution, losses, indexing): uniform error messages, checks of attributes, walks
// over index spaces. Not here: anything about one op.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/definition/aten_import_call.h"
#include "ops/definition/build.h"
#include "ops/definition/gradient_builder.h"
#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::ops {

// Throw Error(kTypeMismatch): "shape mismatch: <what>." and so on; build_op and verify add the op and its
// operands.
[[noreturn]] void shape_error(const std::string& what);
[[noreturn]] void dtype_error(const std::string& what);
[[noreturn]] void attribute_error(const std::string& what);

// Rules that many ops need; each throws one of the errors above.
void require_rank(const InferContext& context, int operand, size_t rank, std::string_view name);
void require_same_dtype(const InferContext& context, int a, int b);
void require_same_shape(const InferContext& context, int a, int b);
// An attribute with one entry per dimension of a shape of `rank` dimensions, each at least `minimum`.
const std::vector<int64_t>& per_dimension(const InferContext& context, std::string_view attribute,
                                          size_t rank, int64_t minimum);
// An attribute naming one dimension in [0, rank).
int64_t dimension(const InferContext& context, std::string_view attribute, size_t rank);
// An attribute naming dimensions in [0, rank), strictly ascending.
const std::vector<int64_t>& dimensions(const InferContext& context, std::string_view attribute, size_t rank);
// An attribute that is one of a few words.
const std::string& one_of(const InferContext& context, std::string_view attribute,
                          std::initializer_list<std::string_view> words);

// --- index spaces

// Calls visit(linear, offset) for each index of `shape` in row-major order, offset = start + sum(index *
// stride).
template <typename Visit>
void for_each_offset(const Shape& shape, const Strides& strides, int64_t start, Visit visit) {
  const int64_t count = element_count(shape);
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = start;
  for (int64_t linear = 0; linear < count; ++linear) {
    visit(linear, offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

// result = operand 0 read through strides.
void read_strided(const ReferenceCall& call, int64_t start, const Strides& strides);
// The kernel that does the same: "copy" with attributes offset and strides, in elements of the contiguous
// operand.
KernelChoice strided_copy(int64_t start, Strides strides);

// Shape seen from one dimension: elements before it, along it, after it.
struct Split3 {
  int64_t outer = 1, size = 1, inner = 1;
};
Split3 split_at(const Shape& shape, int64_t dim);

// --- importers

// `value` itself when it has the shape already.
ir::Value* reshaped(ImportCall& call, ir::Value* value, Shape shape);
// Elements [start, start + size) along one dimension.
ir::Value* sliced(ImportCall& call, ir::Value* value, int64_t dim, int64_t start, int64_t size,
                  int64_t step = 1);
ir::Value* transposed(ImportCall& call, ir::Value* value,
                      std::vector<int64_t> perm);  // itself for the identity
ir::Value* expanded(ImportCall& call, ir::Value* value, Shape shape);
ir::Value* concatenated(ImportCall& call, const std::vector<ir::Value*>& values, int64_t dim);
// Indices counted from the end become indices counted from the front.
std::vector<int64_t> normalize_dims(std::vector<int64_t> dims, size_t rank);
// An int[n] argument given as one number stands for n equal ones.
std::vector<int64_t> expand_to_rank(AtenImportCall& call, std::string_view name, size_t rank);

}  // namespace ipu::ops
