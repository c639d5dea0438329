#include "ir/tables.h"

#include <algorithm>
#include <functional>

#include "ir/module.h"

namespace ipu::ir {
namespace {
constexpr size_t kFewSlots = 16;
size_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }
}  // namespace

Value* NameTable::find(std::string_view name) const {
  if (size_ == 0) return nullptr;
  const size_t hash = hash_of(name), mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].value != nullptr; i = (i + 1) & mask)
    if (slots_[i].hash == hash && slots_[i].value->name() == name) return slots_[i].value;
  return nullptr;
}

void NameTable::place(Slot slot) {
  const size_t mask = slots_.size() - 1;
  size_t i = slot.hash & mask;
  while (slots_[i].value != nullptr) i = (i + 1) & mask;
  slots_[i] = slot;
}

void NameTable::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.value != nullptr) place(slot);
}

void NameTable::reserve(size_t values) {
  size_t slots = std::max(kFewSlots, slots_.size());
  while (values * 2 > slots) slots *= 2;
  if (slots != slots_.size()) grow(slots);
}

void NameTable::insert(Value* value) {
  reserve(size_ + 1);
  place({hash_of(value->name()), value});
  ++size_;
}

void NameTable::erase(const Value* value) {
  const size_t mask = slots_.size() - 1;
  size_t gap = hash_of(value->name()) & mask;
  while (slots_[gap].value != value) gap = (gap + 1) & mask;
  // What follows moves up where the gap would end a search for it.
  for (size_t i = (gap + 1) & mask; slots_[i].value != nullptr; i = (i + 1) & mask) {
    const size_t home = slots_[i].hash & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap] = {};
  --size_;
}

size_t TypeTable::Hash::operator()(const Type& type) const {
  constexpr size_t kPrime = 0x9E3779B97F4A7C15;
  size_t hash = static_cast<size_t>(type.dtype) * 31 + static_cast<size_t>(type.layout.block());
  for (const int64_t extent : type.shape) hash = (hash ^ (hash >> 29) ^ static_cast<size_t>(extent)) * kPrime;
  return hash ^ (hash >> 32);
}

}  // namespace ipu::ir
