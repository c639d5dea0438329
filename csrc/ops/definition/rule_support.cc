// See rule_support.h.
#include "ops/definition/rule_support.h"

#include <fmt/core.h>

#include <numeric>

namespace ipu::ops {

void shape_error(const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {}.", what));
}

void dtype_error(const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("dtype mismatch: {}.", what));
}

void attribute_error(const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("bad attribute: {}.", what));
}

void require_rank(const InferContext& context, int operand, size_t rank, std::string_view name) {
  if (context.operand(operand).shape.size() == rank) return;
  shape_error(fmt::format("{} must have {} dimensions", name, rank));
}

void require_same_dtype(const InferContext& context, int a, int b) {
  if (context.operand(a).dtype == context.operand(b).dtype) return;
  dtype_error(fmt::format("operands {} and {} must have the same dtype", a, b));
}

void require_same_shape(const InferContext& context, int a, int b) {
  if (context.operand(a).shape == context.operand(b).shape) return;
  shape_error(fmt::format("operands {} and {} must have the same shape", a, b));
}

const std::vector<int64_t>& per_dimension(const InferContext& context, std::string_view attribute,
                                          size_t rank, int64_t minimum) {
  const std::vector<int64_t>& list = context.attributes.integers(attribute);
  const bool fits = list.size() == rank &&
                    std::all_of(list.begin(), list.end(), [minimum](int64_t v) { return v >= minimum; });
  if (!fits) {
    attribute_error(
        fmt::format("{}={} must have {} entries of at least {}", attribute, to_string(list), rank, minimum));
  }
  return list;
}

int64_t dimension(const InferContext& context, std::string_view attribute, size_t rank) {
  const int64_t dim = context.attributes.integer(attribute);
  if (dim < 0 || dim >= static_cast<int64_t>(rank)) {
    attribute_error(fmt::format("{}={} is not one of the {} dimensions", attribute, dim, rank));
  }
  return dim;
}

const std::vector<int64_t>& dimensions(const InferContext& context, std::string_view attribute, size_t rank) {
  const std::vector<int64_t>& list = context.attributes.integers(attribute);
  int64_t previous = -1;
  for (const int64_t dim : list) {
    if (dim <= previous || dim >= static_cast<int64_t>(rank)) {
      attribute_error(
          fmt::format("{}={} must be ascending dimensions below {}", attribute, to_string(list), rank));
    }
    previous = dim;
  }
  return list;
}

const std::string& one_of(const InferContext& context, std::string_view attribute,
                          std::initializer_list<std::string_view> words) {
  const std::string& word = context.attributes.text(attribute);
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  std::string list;
  for (const std::string_view w : words) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", w);
  attribute_error(fmt::format("{}=\"{}\" must be one of {}", attribute, word, list));
}

void read_strided(const ReferenceCall& call, int64_t start, const Strides& strides) {
  const std::vector<double>& source = call.operand(0).values;
  std::vector<double>& result = call.result().values;
  for_each_offset(call.result().type.shape, strides, start,
                  [&](int64_t linear, int64_t offset) { result[linear] = source[offset]; });
}

KernelChoice strided_copy(int64_t start, Strides strides) {
  return {"copy", {{"offset", start}, {"strides", std::move(strides)}}};
}

Split3 split_at(const Shape& shape, int64_t dim) {
  Split3 split;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    (d < dim ? split.outer : d == dim ? split.size : split.inner) *= shape[d];
  }
  return split;
}

ir::Value* reshaped(ImportCall& call, ir::Value* value, Shape shape) {
  if (value->type().shape == shape) return value;
  return call.op("reshape", {value}, {{"shape", std::move(shape)}});
}

ir::Value* sliced(ImportCall& call, ir::Value* value, int64_t dim, int64_t start, int64_t size,
                  int64_t step) {
  const Shape& shape = value->type().shape;
  if (start == 0 && size == shape[dim] && step == 1) return value;
  std::vector<int64_t> starts(shape.size(), 0), sizes = shape, steps(shape.size(), 1);
  starts[dim] = start;
  sizes[dim] = size;
  steps[dim] = step;
  return call.op("slice", {value}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

ir::Value* transposed(ImportCall& call, ir::Value* value, std::vector<int64_t> perm) {
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) identity = identity && perm[i] == static_cast<int64_t>(i);
  if (identity) return value;
  return call.op("transpose", {value}, {{"perm", std::move(perm)}});
}

ir::Value* expanded(ImportCall& call, ir::Value* value, Shape shape) {
  if (value->type().shape == shape) return value;
  return call.op("expand", {value}, {{"shape", std::move(shape)}});
}

ir::Value* concatenated(ImportCall& call, const std::vector<ir::Value*>& values, int64_t dim) {
  if (values.size() == 1) return values[0];
  return build_op(call.builder(), "concat", values, {{"dim", dim}})->result();
}

std::vector<int64_t> normalize_dims(std::vector<int64_t> dims, size_t rank) {
  for (int64_t& dim : dims) dim = normalize_dim(dim, rank);
  return dims;
}

std::vector<int64_t> expand_to_rank(AtenImportCall& call, std::string_view name, size_t rank) {
  std::vector<int64_t> list = call.integers(name);
  if (list.size() == 1) list.assign(rank, list[0]);
  if (list.size() != rank) {
    throw Error(ErrorCode::kTypeMismatch, fmt::format("bad argument: {}: {}={} must have 1 or {} entries",
                                                      call.overload(), name, to_string(list), rank));
  }
  return list;
}

}  // namespace ipu::ops
