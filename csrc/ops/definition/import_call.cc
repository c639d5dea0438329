#include "ops/definition/import_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "support/error.h"

namespace ipu::ops {
namespace {

int category(DType dtype) { return dtype == DType::kBool ? 0 : is_integer(dtype) ? 1 : 2; }

// The smallest dtype that holds both, as torch's table; i64 and f64 do not occur on the device.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (is_floating_point(a)) return DType::kF32;
  const auto is_unsigned = [](DType d) { return d == DType::kU8 || d == DType::kU16 || d == DType::kU32; };
  if (is_unsigned(a) == is_unsigned(b)) return size_in_bytes(a) > size_in_bytes(b) ? a : b;
  const DType u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
  if (size_in_bytes(s) > size_in_bytes(u)) return s;
  return u == DType::kU8 ? DType::kI16 : DType::kI32;
}

[[noreturn]] void raise_wide(std::string_view overload, std::string_view name, int64_t value) {
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("argument out of range: '{}' of aten::{} is {}; "
                          "the IPU has 32-bit integers, from -2147483648 to 2147483647.",
                          name, overload, value));
}

}  // namespace

int64_t ImportCall::integer(std::string_view name) {
  const int64_t value = wide_integer(name);
  if (value != static_cast<int32_t>(value)) raise_wide(overload(), name, value);
  return value;
}

std::vector<int64_t> ImportCall::integers(std::string_view name) {
  std::vector<int64_t> values = wide_integers(name);
  for (const int64_t value : values)
    if (value != static_cast<int32_t>(value)) raise_wide(overload(), name, value);
  return values;
}

int64_t ImportCall::clamped_integer(std::string_view name) {
  return std::clamp<int64_t>(wide_integer(name), std::numeric_limits<int32_t>::min(),
                             std::numeric_limits<int32_t>::max());
}

DType ImportCall::promoted(std::initializer_list<std::string_view> names) {
  // torch ranks tensors with dimensions over 0-d tensors over Scalars; a lower rank counts only by a higher
  // category.
  std::optional<DType> ranks[3];
  for (std::string_view name : names) {
    if (!has(name)) continue;
    int rank = 2;
    DType dtype = DType::kF32;
    if (is_tensor(name)) {
      const ir::Type& type = tensor(name)->type();
      rank = type.shape.empty() ? 1 : 0;
      dtype = type.dtype;
    } else if (is_integer_scalar(name)) {
      dtype = DType::kI32;
    }
    ranks[rank] = ranks[rank] ? wider(*ranks[rank], dtype) : dtype;
  }
  std::optional<DType> result;
  for (const std::optional<DType>& rank : ranks)
    if (rank && (!result || category(*rank) > category(*result))) result = rank;
  IPU_CHECK(result.has_value(), "no argument to take a dtype from");
  return *result;
}

ir::Value* ImportCall::cast(ir::Value* value, DType dtype) {
  return value->type().dtype == dtype ? value : op("cast", {value}, {{"dtype", dtype}});
}

ir::Value* ImportCall::operand(std::string_view name, DType dtype) {
  return is_tensor(name) ? cast(tensor(name), dtype) : builder().scalar(dtype, real(name));
}

ir::Value* ImportCall::op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                          Attributes attributes) {
  return build(builder(), kind, operands, std::move(attributes));
}

void ImportCall::unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupportedOps,
              fmt::format("unsupported operation: aten::{}: {}.", overload(), what));
}

int64_t normalize_dim(int64_t dim, size_t rank) {
  // torch lets 0-d tensors have one dimension here.
  const int64_t extent = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  if (dim < -extent || dim >= extent)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("dimension out of range: {} is not in [{}, {}].", dim, -extent, extent - 1));
  return dim < 0 ? dim + extent : dim;
}

}  // namespace ipu::ops
