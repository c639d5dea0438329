#include "ops/definition/tensorflow_nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace ipu::ops {

DType tensorflow_dtype(NodeImportCall& call, std::string_view name) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32", DType::kF32}, {"float16", DType::kF16}, {"half", DType::kF16},  {"int32", DType::kI32},
      {"int64", DType::kI32},   {"bool", DType::kBool},   {"uint8", DType::kU8},  {"int8", DType::kI8},
      {"uint32", DType::kU32},  {"int16", DType::kI16},   {"uint16", DType::kU16}};
  const std::string word = call.text(name);
  for (const auto& [type, dtype] : kTypes)
    if (word == type) return dtype;
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

ir::Value* channels_first(ImportCall& call, ir::Value* x) {
  std::vector<int64_t> perm(x->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  return transposed(call, x, channels_first(std::move(perm)));
}

ir::Value* channels_last(ImportCall& call, ir::Value* x) {
  std::vector<int64_t> perm(x->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return transposed(call, x, std::move(perm));
}

std::vector<int64_t> channels_first(std::vector<int64_t> list) {
  std::rotate(list.begin() + 1, list.end() - 1, list.end());
  return list;
}

}  // namespace ipu::ops
