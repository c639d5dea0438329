// Pieces shared by importers of ai.graphcore, PopART's own domain: its registration, errors that name the operator
// and its numbers, numbers in a tensor's type, and what its losses and index operators have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {

inline constexpr const char* kGraphcore = "ai.graphcore";

// For version 1 of the domain, the only one.
void register_graphcore_importer(std::string type, NodeImporter importer);

// Throw Error(kTypeMismatch): "<key>: <operator> <what>."
[[noreturn]] void node_shape_error(NodeImportCall& call, const std::string& what);
[[noreturn]] void node_dtype_error(NodeImportCall& call, const std::string& what);
[[noreturn]] void node_attribute_error(NodeImportCall& call, const std::string& what);

// Throws unless the operands have one element type.
void require_equal_dtypes(NodeImportCall& call, int a, int b);
// Throws unless operand i has one of the words' kinds.
void require_float(NodeImportCall& call, int i);
void require_integer(NodeImportCall& call, int i);
// An attribute that is 0 or 1.
bool flag_of(NodeImportCall& call, std::string_view name, bool fallback);

// `value` as a scalar of the type of `like`.
ir::Value* number_like(ImportCall& call, const ir::Value* like, double value);
// [0, size) along dimension `dim` of `rank` dimensions, i32.
ir::Value* places_along(ImportCall& call, int64_t size, int64_t dim, size_t rank);
// Element i of a flat integer tensor, of one dimension.
ir::Value* one_element(ImportCall& call, ir::Value* x, int64_t i);

// "sum", "mean" or "none", from PopART's "Sum", "Mean" and "None".
std::string loss_reduction(NodeImportCall& call);

}  // namespace ipu::ops
