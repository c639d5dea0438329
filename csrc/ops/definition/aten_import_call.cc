#include "ops/definition/aten_import_call.h"

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

}  // namespace

int64_t AtenImportCall::clamped_integer(std::string_view name) {
  return std::clamp<int64_t>(wide_integer(name), std::numeric_limits<int32_t>::min(),
                             std::numeric_limits<int32_t>::max());
}

DType AtenImportCall::promoted(std::initializer_list<std::string_view> names) {
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

ir::Value* AtenImportCall::operand(std::string_view name, DType dtype) {
  return is_tensor(name) ? cast(tensor(name), dtype) : builder().scalar(dtype, real(name));
}

}  // namespace ipu::ops
