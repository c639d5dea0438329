// Building defined ops: types follow from the type rule, errors name the op. Ops are kept in one canonical
// form: an attribute equal to its default is not stored (nor printed); rules, kernels and the interpreter see
// it filled in, everybody else reads attribute_or_default().
#pragma once

#include "ir/builder.h"
#include "ops/definition/op_def.h"

namespace ipu::ops {

// Creates one op of a defined kind. Throws Error(kTypeMismatch) when the operands do not fit the definition.
ir::Op* build_op(ir::Builder& builder, std::string_view kind, std::span<ir::Value* const> operands,
                 Attributes attributes = {}, std::string_view name_hint = "");
ir::Value* build(ir::Builder& builder, std::string_view kind, std::initializer_list<ir::Value*> operands,
                 Attributes attributes = {}, std::string_view name_hint = "");  // first result

// Result types of a would-be op.
std::vector<ir::Type> infer_types(std::string_view kind, std::span<ir::Value* const> operands,
                                  const Attributes& attributes);

// Attribute of an op, or the default of its definition.
Attribute attribute_or_default(const ir::Op& op, std::string_view name);
Attributes with_defaults(const OpDef& def, const Attributes& attributes);

}  // namespace ipu::ops
