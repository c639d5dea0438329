// Pieces shared by importers of TensorFlow's op types: element types by name, operands that are axes and sizes, images whose channels
// are last, attributes that must be at their defaults.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/channels_last.h"
#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/term.h"

namespace ipu::ops {

inline Term term(NodeImportCall& call, int operand) { return {call, call.operand(operand)}; }
inline void set_result(NodeImportCall& call, const Term& y) { call.set_result(0, y.value()); }

// The type on the device of what TensorFlow calls `word`: "int64" is i32; nullopt: the device has none.
std::optional<DType> dtype_of_tensorflow(std::string_view word);
// That of attribute `name`. Error(kUnsupportedOps) for those the device does not have.
DType tensorflow_dtype(NodeImportCall& call, std::string_view name);

// Error(kUnsupportedOps) unless the node has no such attribute, or this value.
void require_default(NodeImportCall& call, std::string_view name, const Attribute& value);
inline bool flag(NodeImportCall& call, std::string_view name) { return call.has(name) && call.boolean(name); }

// The number that operand i is. Error(kTypeMismatch) when it is several.
int64_t operand_integer(NodeImportCall& call, int i, std::string_view what);
// A dimension that operand i names, from the front.
int64_t operand_axis(NodeImportCall& call, int i, size_t rank);

// Element i of operand `operand`, an i32 of no dimensions.
ir::Value* operand_element(NodeImportCall& call, int operand, int64_t i);

// Whether attribute data_format says that channels are the last dimension, as they are without it.
bool is_channels_last(NodeImportCall& call);
// x with the last dimension behind the first, and back: [N, H, W, C] and [N, C, H, W].
ir::Value* channels_first(ImportCall& call, ir::Value* x);
ir::Value* channels_last(ImportCall& call, ir::Value* x);

}  // namespace ipu::ops
