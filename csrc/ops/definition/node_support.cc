#include "ops/definition/node_support.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/builder.h"
#include "ops/reference_tensor.h"
#include "support/error.h"

namespace ipu::ops {

int64_t node_dim(NodeImportCall& call, int64_t dim, size_t rank) {
  const auto extent = static_cast<int64_t>(rank);
  if (dim < -extent || dim >= extent)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("dimension out of range: {} names dimension {} of {}.",
                                                      call.described(), dim, rank));
  return dim < 0 ? dim + extent : dim;
}

std::vector<int64_t> operand_sizes(NodeImportCall& call, int i, std::string_view what) {
  std::vector<int64_t> sizes = call.operand_integers(i, what);
  for (const int64_t size : sizes)
    if (size < 0)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("value out of range: '{}' of {} is {}; none may be negative.", what,
                              call.described(), to_string(sizes)));
  return sizes;
}

int64_t axis_of(NodeImportCall& call, std::string_view name, int64_t fallback, size_t rank) {
  return node_dim(call, call.integer(name, fallback), rank);
}

std::optional<std::vector<int64_t>> axes_of(NodeImportCall& call, int operand, int operand_since, size_t rank,
                                            bool may_repeat) {
  std::vector<int64_t> axes;
  if (call.version() < operand_since) {
    if (!call.has("axes")) return std::nullopt;
    axes = call.integers("axes");
  } else {
    if (!call.has_operand(operand)) return std::nullopt;
    axes = call.operand_integers(operand, "axes");
  }
  const std::vector<int64_t> given = axes;
  for (int64_t& axis : axes) axis = node_dim(call, axis, rank);
  std::sort(axes.begin(), axes.end());
  if (may_repeat) axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("axes named twice: {} has axes {} of {} dimensions.",
                                                      call.described(), to_string(given), rank));
  return axes;
}

DType onnx_dtype(NodeImportCall& call, int64_t element_type) {
  switch (element_type) {
    case 11:
      if (call.is_popart()) call.unsupported("element type DOUBLE");
      [[fallthrough]];
    case 1:
      return DType::kF32;
    case 2:
      return DType::kU8;
    case 3:
      return DType::kI8;
    case 4:
      return DType::kU16;
    case 5:
      return DType::kI16;
    case 6:
    case 7:
      return DType::kI32;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kF16;
    case 12:
      return DType::kU32;
    default:
      call.unsupported(fmt::format("element type {} of ONNX", element_type));
  }
}

ir::Value* forward_only(NodeImportCall& call, ir::Value* value) {
  if (!call.is_training() || !is_floating_point(value->type().dtype)) return value;
  return call.op("forward_only", {value});
}

ir::Value* no_device_gradient(NodeImportCall& call, ir::Value* value) {
  if (!call.is_training() || !is_floating_point(value->type().dtype)) return value;
  return call.op("no_device_gradient", {value});
}

ir::Value* refusing_gradient(ImportCall& call, ir::Value* x) {
  return is_floating_point(x->type().dtype) ? call.op("refuse_gradient", {x}) : x;
}

ir::Value* flat(NodeImportCall& call, ir::Value* x, ir::Value* y) {
  if (!call.is_popart() || !call.is_training() || !is_floating_point(x->type().dtype)) return y;
  return call.op("flat", {x, y});
}

NodeImporter flat_importer(std::string kind) {
  return [kind = std::move(kind)](NodeImportCall& call) {
    ir::Value* x = call.operand(0);
    call.set_result(0, flat(call, x, call.op(kind, {x})));
  };
}

void require_integers(NodeImportCall& call, int i, std::string_view what) {
  const DType dtype = call.operand(i)->type().dtype;
  if (!is_floating_point(dtype) && dtype != DType::kBool) return;
  throw Error(ErrorCode::kTypeMismatch, fmt::format("dtype mismatch: {} has {} of {}; they are integers.",
                                                    call.described(), what, to_string(dtype)));
}

ConstantPtr constant_of(DType dtype, Shape shape, const std::vector<double>& values) {
  ReferenceTensor tensor{{dtype, std::move(shape)}, values};
  round_to(tensor);
  return tensor.to_constant();
}

ConstantPtr constant_of(const std::vector<int64_t>& values) {
  return ir::make_constant(DType::kI64, {static_cast<int64_t>(values.size())}, values.data());
}

}  // namespace ipu::ops
