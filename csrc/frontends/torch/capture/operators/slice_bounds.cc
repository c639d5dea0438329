#include "frontends/torch/capture/operators/slice_bounds.h"

#include <cstring>

namespace ipu::frontends::torch_frontend {
namespace {

template <typename T>
int64_t number_in(const std::vector<std::byte>& bytes) {
  T number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::optional<int64_t> integer_of(const ir::Value& value) {
  const ir::Op* op = value.producer();
  if (op == nullptr || !op->is("constant") || value.type().elements() != 1) return std::nullopt;
  const std::vector<std::byte>& bytes = op->attributes.constant("value")->bytes;
  switch (value.type().dtype) {
    case DType::kI16:
      return number_in<int16_t>(bytes);
    case DType::kI32:
      return number_in<int32_t>(bytes);
    case DType::kI64:
      return number_in<int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

struct Place {
  const ir::Value* base;
  int64_t offset;
};

// What a bound counts from, through sums with constants and changes of shape.
Place place_of(const ir::Value& bound) {
  Place place{&bound, 0};
  while (const ir::Op* op = place.base->producer()) {
    if (place.base->type().elements() != 1) break;
    const ir::Value* next = nullptr;
    if (op->is("add") || op->is("sub")) {
      const bool is_sum = op->is("add");
      if (std::optional<int64_t> right = integer_of(*op->operand(1))) {
        place.offset += is_sum ? *right : -*right;
        next = op->operand(0);
      } else if (std::optional<int64_t> left = integer_of(*op->operand(0)); left && is_sum) {
        place.offset += *left;
        next = op->operand(1);
      }
    } else if (op->is("reshape")) {
      next = op->operand(0);
    }
    if (next == nullptr) break;
    place.base = next;
  }
  return place;
}

}  // namespace

std::optional<int64_t> constant_distance(const ir::Value& from, const ir::Value& to) {
  const Place first = place_of(from), second = place_of(to);
  if (first.base != second.base) return std::nullopt;
  return second.offset - first.offset;
}

}  // namespace ipu::frontends::torch_frontend
