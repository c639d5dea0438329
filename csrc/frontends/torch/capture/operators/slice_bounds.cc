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

// factor * base + offset
struct Place {
  const ir::Value* base;
  int64_t factor = 1, offset = 0;
};

// What a bound counts from, through sums and products with constants and changes of shape or integer type.
Place place_of(const ir::Value& bound) {
  Place place{&bound};
  while (const ir::Op* op = place.base->producer()) {
    if (place.base->type().elements() != 1) break;
    const ir::Value* next = nullptr;
    if (op->is("add") || op->is("sub") || op->is("mul")) {
      const ir::Value *left = op->operand(0), *right = op->operand(1);
      std::optional<int64_t> constant = integer_of(*right);
      next = left;
      if (!constant && !op->is("sub")) {
        constant = integer_of(*left);
        next = right;
      }
      if (!constant) break;
      if (op->is("mul"))
        place.factor *= *constant;
      else
        place.offset += place.factor * (op->is("add") ? *constant : -*constant);
    } else if (op->is("reshape") || (op->is("cast") && is_integer(op->operand(0)->type().dtype))) {
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
  if (first.base != second.base || first.factor != second.factor) return std::nullopt;
  return second.offset - first.offset;
}

}  // namespace ipu::frontends::torch_frontend
