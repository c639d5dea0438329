// Pieces shared by importers of ONNX operators: axes that moved from attributes to operands, element types by
// number.
#pragma once

#include <optional>
#include <vector>

#include "ops/definition/importers.h"
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
// operand `operand` from then on; nullopt: the node has none. Error(kTypeMismatch) for doubles, unless one
// `may_repeat`.
std::optional<std::vector<int64_t>> axes_of(NodeImportCall& call, int operand, int operand_since, size_t rank,
                                            bool may_repeat = false);

// The type that number `element_type` of ONNX's TensorProto is on the device: i64 is i32, f64 is f32
// but in PopART, which refuses it.
// Error(kUnsupportedOps) for those the device does not have.
DType onnx_dtype(NodeImportCall& call, int64_t element_type);

// `value`, through which no gradient can be asked for: PopART has none of the operator.
ir::Value* forward_only(NodeImportCall& call, ir::Value* value);

// `value`, whose gradient PopART builds and no device can run: Error(kNotDifferentiable) when it is compiled.
ir::Value* no_device_gradient(NodeImportCall& call, ir::Value* value);

// `x` itself, to which no gradient may lead: Error(kNotDifferentiable) when one does.
ir::Value* refusing_gradient(ImportCall& call, ir::Value* x);
// `y`, which follows from `x` in steps: in a program of PopART that trains, the gradient of x is there, and zero.
ir::Value* flat(NodeImportCall& call, ir::Value* x, ir::Value* y);
// Op `kind` of operand 0 alone, as the result, with such a gradient.
NodeImporter flat_importer(std::string kind);

// Error(kTypeMismatch) unless operand i, which `what` names, holds integers.
void require_integers(NodeImportCall& call, int i, std::string_view what);

// A constant of elements of `dtype`; numbers are rounded to it.
ConstantPtr constant_of(DType dtype, Shape shape, const std::vector<double>& values);
ConstantPtr constant_of(const std::vector<int64_t>& values);  // i64, one dimension

}  // namespace ipu::ops
