#include "ops/definition/build.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::ops {
namespace {

std::string dtype_names(DTypeSet set) {
  std::string names;
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i)
    if ((set & (1u << i)) != 0)
      names += (names.empty() ? "" : ", ") + std::string(to_string(static_cast<DType>(i)));
  return names;
}

// "add(x: f32[2,3], y: f32[4])"
std::string describe(std::string_view kind, const OpDef* def, std::span<const ir::Type* const> operands) {
  std::string text = std::string(kind) + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i != 0) text += ", ";
    if (def != nullptr && !def->operands.empty())
      text += def->operands[std::min(i, def->operands.size() - 1)].name + ": ";
    text += operands[i] == nullptr ? "none" : ir::to_string(*operands[i]);
  }
  return text + ")";
}

[[noreturn]] void mismatch(const std::string& what) { throw Error(ErrorCode::kTypeMismatch, what); }

[[noreturn]] void undefined(std::string_view kind) {
  mismatch(fmt::format("unknown operation: '{}' is not defined (docs/ops.md lists all).", kind));
}

void check_operands(const OpDef& def, std::span<const ir::Type* const> operands) {
  const bool variadic = !def.operands.empty() && def.operands.back().variadic;
  size_t required = 0;
  for (size_t i = 0; i < def.operands.size(); ++i)
    if (!def.operands[i].optional && !def.operands[i].variadic) required = i + 1;
  if (operands.size() < required || (!variadic && operands.size() > def.operands.size()))
    mismatch(fmt::format("operand count mismatch: {} takes {} operands, not {}.", def.name,
                         variadic ? fmt::format("at least {}", required)
                         : required == def.operands.size()
                             ? std::to_string(required)
                             : fmt::format("{} to {}", required, def.operands.size()),
                         operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandDef& operand = def.operands[std::min(i, def.operands.size() - 1)];
    if (operands[i] == nullptr) {
      if (!operand.optional)
        mismatch(fmt::format("missing operand: '{}' of {} is not optional.", operand.name, def.name));
    } else if ((operand.dtypes & bit(operands[i]->dtype)) == 0) {
      mismatch(fmt::format("dtype mismatch: operand '{}' of {} is {}; allowed are {}.", operand.name,
                           def.name, to_string(operands[i]->dtype), dtype_names(operand.dtypes)));
    }
  }
}

const AttributeDef* find_attribute(const OpDef& def, std::string_view name) {
  for (const AttributeDef& attribute : def.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

// Sizes, places and counts are 32-bit integers: products of two of them fit 64 bits in type rules and
// kernels, and there is no more memory to count.
void check_width(const OpDef& def, const std::string& name, const Attribute& value) {
  const auto check = [&](int64_t number) {
    if (number != static_cast<int32_t>(number))
      mismatch(
          fmt::format("attribute out of range: '{}' of {} is {}; "
                      "sizes and places have 32 bits, up to 2147483647.",
                      name, def.name, number));
  };
  if (const auto* number = std::get_if<int64_t>(&value)) check(*number);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    for (const int64_t number : *list) check(number);
}

void check_extents(const OpDef& def, const std::vector<ir::Type>& types) {
  for (const ir::Type& type : types) {
    size_in_bytes(type.dtype, type.shape);  // throws on overflow
    for (const int64_t extent : type.shape)
      if (extent != static_cast<int32_t>(extent))
        mismatch(
            fmt::format("shape out of range: a result of {} would be {}; "
                        "dimensions have up to 2147483647 elements.",
                        def.name, to_string(type.shape)));
  }
}

void check_attributes(const OpDef& def, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (name == ir::kInPlace) continue;  // of any op in authored form: ops/definition/effects.h
    const AttributeDef* attribute = find_attribute(def, name);
    if (attribute == nullptr)
      mismatch(fmt::format("unknown attribute: {} has no attribute '{}'.", def.name, name));
    if (attribute->fallback && attribute->fallback->index() != value.index())
      mismatch(
          fmt::format("attribute mismatch: '{}' of {} is of another kind than its default.", name, def.name));
    check_width(def, name, value);
  }
  for (const AttributeDef& attribute : def.attributes)
    if (!attribute.fallback && !attributes.has(attribute.name))
      mismatch(fmt::format("missing attribute: {} needs '{}'.", def.name, attribute.name));
}

bool needs_normalizing(const OpDef& def, const Attributes& attributes) {
  for (const AttributeDef& attribute : def.attributes) {
    if (!attribute.fallback || !std::holds_alternative<double>(*attribute.fallback)) continue;
    const Attribute* value = attributes.find(attribute.name);
    if (value != nullptr && std::holds_alternative<int64_t>(*value)) return true;
  }
  return false;
}

// The kind of the default decides: an integer where a real is meant becomes a real.
Attributes normalized(const OpDef& def, Attributes attributes) {
  for (const AttributeDef& attribute : def.attributes) {
    const Attribute* value = attributes.find(attribute.name);
    if (value == nullptr || !attribute.fallback) continue;
    if (std::holds_alternative<double>(*attribute.fallback) && std::holds_alternative<int64_t>(*value))
      attributes.set(attribute.name, static_cast<double>(std::get<int64_t>(*value)));
  }
  return attributes;
}

Attributes without_defaults(const OpDef& def, Attributes attributes) {
  for (const AttributeDef& attribute : def.attributes) {
    const Attribute* value = attributes.find(attribute.name);
    if (value != nullptr && attribute.fallback && equal(*value, *attribute.fallback))
      attributes.erase(attribute.name);
  }
  return attributes;
}

std::vector<ir::Type> infer(std::string_view kind, const OpDef* def, std::span<ir::Value* const> values,
                            const Attributes& attributes) {
  std::vector<const ir::Type*> operands;
  operands.reserve(values.size());
  for (const ir::Value* value : values) operands.push_back(value == nullptr ? nullptr : &value->type());
  try {
    if (def == nullptr) undefined(kind);
    check_operands(*def, operands);
    check_attributes(*def, attributes);
    IPU_CHECK(static_cast<bool>(def->infer), fmt::format("op '{}' has no type rule", def->name));
    std::vector<ir::Type> types =
        def->attributes.empty() ? def->infer(InferContext{kind, operands, attributes})
                                : def->infer(InferContext{kind, operands, with_defaults(*def, attributes)});
    const bool variadic = !def->results.empty() && def->results.back().ends_with("...");
    IPU_CHECK(variadic || types.size() == def->results.size(),
              fmt::format("the type rule of '{}' gives {} types", def->name, types.size()));
    check_extents(*def, types);
    return types;
  } catch (Error& error) {
    if (error.code() != ErrorCode::kTypeMismatch) throw;
    error.add("\n  in: " + describe(kind, def, operands));
    throw;
  }
}

}  // namespace

std::vector<ir::Type> infer_types(std::string_view kind, std::span<ir::Value* const> operands,
                                  const Attributes& attributes) {
  const OpDef* def = find_op(kind);
  if (def == nullptr || !needs_normalizing(*def, attributes)) return infer(kind, def, operands, attributes);
  return infer(kind, def, operands, normalized(*def, attributes));
}

ir::Op* build_op(ir::Builder& builder, std::string_view kind, std::span<ir::Value* const> operands,
                 Attributes attributes, std::string_view name_hint) {
  const OpDef* def = find_op(kind);
  if (def != nullptr) attributes = normalized(*def, std::move(attributes));
  try {
    const std::vector<ir::Type> types = infer(kind, def, operands, attributes);
    return builder.create(kind, operands, without_defaults(*def, std::move(attributes)), types, name_hint);
  } catch (Error& error) {
    if (error.user_line().empty()) error.at(ir::user_line(builder.location));
    throw;
  }
}

ir::Value* build(ir::Builder& builder, std::string_view kind, std::initializer_list<ir::Value*> operands,
                 Attributes attributes, std::string_view name_hint) {
  return build_op(builder, kind, std::span<ir::Value* const>(operands.begin(), operands.size()),
                  std::move(attributes), name_hint)
      ->result();
}

Attribute attribute_or_default(const ir::Op& op, std::string_view name) {
  if (const Attribute* value = op.attributes.find(name)) return *value;
  const OpDef* def = definition(op);
  const AttributeDef* attribute = def == nullptr ? nullptr : find_attribute(*def, name);
  IPU_CHECK(attribute != nullptr && attribute->fallback.has_value(),
            fmt::format("op '{}' has neither the attribute '{}' nor a default for it", op.kind(), name));
  return *attribute->fallback;
}

Attributes with_defaults(const OpDef& def, const Attributes& attributes) {
  Attributes full = normalized(def, attributes);
  full.erase(ir::kInPlace);  // says where results go, not what they are
  for (const AttributeDef& attribute : def.attributes)
    if (attribute.fallback && !full.has(attribute.name)) full.set(attribute.name, *attribute.fallback);
  return full;
}

}  // namespace ipu::ops
