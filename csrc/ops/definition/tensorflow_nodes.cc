#include "ops/definition/tensorflow_nodes.h"

#include <fmt/core.h>

namespace ipu::ops {

std::optional<DType> dtype_of_tensorflow(std::string_view word) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32", DType::kF32}, {"float16", DType::kF16}, {"half", DType::kF16},  {"int32", DType::kI32},
      {"int64", DType::kI32},   {"bool", DType::kBool},   {"uint8", DType::kU8},  {"int8", DType::kI8},
      {"uint32", DType::kU32},  {"int16", DType::kI16},   {"uint16", DType::kU16}};
  for (const auto& [type, dtype] : kTypes)
    if (word == type) return dtype;
  return std::nullopt;
}

DType tensorflow_dtype(NodeImportCall& call, std::string_view name) {
  const std::string word = call.text(name);
  if (const std::optional<DType> dtype = dtype_of_tensorflow(word)) return *dtype;
  call.unsupported(fmt::format("element type '{}'", word));
}

void require_default(NodeImportCall& call, std::string_view name, const Attribute& value) {
  if (!call.has(name)) return;
  bool is_default = false;
  if (const auto* flag = std::get_if<bool>(&value)) is_default = call.boolean(name) == *flag;
  if (const auto* number = std::get_if<int64_t>(&value)) is_default = call.integer(name) == *number;
  if (const auto* word = std::get_if<std::string>(&value)) is_default = call.text(name) == *word;
  if (!is_default) call.unsupported(fmt::format("attribute '{}' is not at its default", name));
}

int64_t operand_integer(NodeImportCall& call, int i, std::string_view what) {
  const std::vector<int64_t> values = call.operand_integers(i, what);
  if (values.size() != 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: operand {}, '{}', of {} has {} elements; it is one number.", i,
                            what, call.described(), values.size()));
  return values[0];
}

int64_t operand_axis(NodeImportCall& call, int i, size_t rank) {
  return node_dim(call, operand_integer(call, i, "axis"), rank);
}

ir::Value* operand_element(NodeImportCall& call, int operand, int64_t i) {
  ir::Value* x = call.cast(call.operand(operand), DType::kI32);
  return reshaped(call, sliced(call, reshaped(call, x, {x->type().elements()}), 0, i, 1), {});
}

bool is_channels_last(NodeImportCall& call) {
  const std::string word = call.text("data_format", "NHWC");
  if (word == "NHWC" || word == "NDHWC" || word == "NWC") return true;
  if (word != "NCHW" && word != "NCDHW" && word != "NCW")
    call.unsupported(fmt::format("data_format \"{}\"", word));
  return false;
}

namespace {

void require_image(ImportCall& call, const ir::Value* x) {
  if (x->type().shape.size() < 3)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which has no batch, channels and spatial dimensions.",
                            call.described(), to_string(x->type().shape)));
}

}  // namespace

ir::Value* channels_first(ImportCall& call, ir::Value* x) {
  require_image(call, x);
  return transposed(call, x, ir::channels_first_permutation(x->type().shape.size()));
}

ir::Value* channels_last(ImportCall& call, ir::Value* x) {
  require_image(call, x);
  return transposed(call, x, ir::channels_last_permutation(x->type().shape.size()));
}

}  // namespace ipu::ops
