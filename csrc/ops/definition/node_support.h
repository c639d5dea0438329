// Pieces shared by importers of ONNX operators: axes that moved from attributes to operands, element types by
// number.
#pragma once

#include <optional>
#include <vector>

#include "ops/definition/node_import_call.h"

namespace ipu::ops {

// A dimension of a tensor of `rank` dimensions, counted from the end when negative. Error(kTypeMismatch) when
// there is no such dimension; a scalar has none.
int64_t node_dim(NodeImportCall& call, int64_t dim, size_t rank);

// Sizes or counts that the model states as operand i; Error(kTypeMismatch) for negative ones.
std::vector<int64_t> operand_sizes(NodeImportCall& call, int i, std::string_view what);

// An attribute that is one dimension; negative ones count from the end.
int64_t axis_of(NodeImportCall& call, std::string_view name, int64_t fallback, size_t rank);

// A list of dimensions in [0, rank), ascending, each once: attribute "axes" before version `operand_since`,
// operand `operand` from then on; nullopt: the node has none. Error(kTypeMismatch) for doubles.
std::optional<std::vector<int64_t>> axes_of(NodeImportCall& call, int operand, int operand_since,
                                            size_t rank);

// The type that number `element_type` of ONNX's TensorProto is on the device: i64 is i32, f64 is f32.
// Error(kUnsupportedOps) for those the device does not have.
DType onnx_dtype(NodeImportCall& call, int64_t element_type);

// `value`, through which no gradient can be asked for: PopART has none of the operator.
ir::Value* forward_only(NodeImportCall& call, ir::Value* value);

// A constant of elements of `dtype`; numbers are rounded to it.
ConstantPtr constant_of(DType dtype, Shape shape, const std::vector<double>& values);
ConstantPtr constant_of(const std::vector<int64_t>& values);  // i64, one dimension

}  // namespace ipu::ops
