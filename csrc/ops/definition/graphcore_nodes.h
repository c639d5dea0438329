// Pieces shared by importers of ai.graphcore, PopART's own domain: its registration, errors that name the operator
// and its numbers, numbers in a tensor's type, and what its losses and index operators have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {

// What programs of PopART are told of an operator, of version 1, the only one.
struct GraphcoreOperator {
  std::string type;
  std::string method;  // of a builder, which makes a node; "": none does
  // "x:X into?:X+F8": names and element types that PopART declares, as popart/_impl/operators/graphcore.py calls them. x? may be left
  // out; x*2 are two or more. A result y= has the type of operand 0; y~ has its element type, and the sizes to which all operands
  // broadcast; the method does not return y!.
  std::string operands, results;
  std::string gradient;  // "yes", "zero", "none" (nothing before it is trained through it) or "error"
  // "axes:ints, mode:string(DCR|CRD), axis:int=0" of the method; kinds are in popart/_impl/builder/methods.py, and their values in
  // popart/_impl/operators/graphcore.py unless they are said here.
  std::string parameters;
  std::string doc;
};
void register_graphcore_importer(GraphcoreOperator op, NodeImporter importer);
// One whose importer stands elsewhere, or a second method for it.
void describe_graphcore_operator(GraphcoreOperator op);
// Sorted by method, with functions of floats that definitions import by name (OpDefBuilder::from_graphcore).
std::vector<GraphcoreOperator> graphcore_operators();

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
