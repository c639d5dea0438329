#include "ops/definition/import_call.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"

namespace ipu::ops {

void ImportCall::check_width(std::string_view name, int64_t value) const {
  if (value == static_cast<int32_t>(value)) return;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("argument out of range: '{}' of {} is {}; "
                          "the IPU has 32-bit integers, from -2147483648 to 2147483647.",
                          name, described(), value));
}

int64_t ImportCall::integer(std::string_view name) {
  const int64_t value = wide_integer(name);
  check_width(name, value);
  return value;
}

std::vector<int64_t> ImportCall::integers(std::string_view name) {
  std::vector<int64_t> values = wide_integers(name);
  for (const int64_t value : values) check_width(name, value);
  return values;
}

ir::Value* ImportCall::cast(ir::Value* value, DType dtype) {
  return value->type().dtype == dtype ? value : op("cast", {value}, {{"dtype", dtype}});
}

ir::Value* ImportCall::op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                          Attributes attributes) {
  return build(builder(), kind, operands, std::move(attributes));
}

void ImportCall::unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupportedOps, fmt::format("unsupported operation: {}: {}.", described(), what));
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
