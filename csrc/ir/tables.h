// What a graph and a module look things up in: values by name, types by content.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/type.h"

namespace ipu::ir {

class Value;

// The values of a graph by name. Owns nothing and keeps no copy of the names.
class NameTable {
 public:
  Value* find(std::string_view name) const;  // nullptr when unknown
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  void insert(Value* value);  // its name is new
  void erase(const Value* value);
  void reserve(size_t values);

 private:
  struct Slot {
    size_t hash = 0;
    Value* value = nullptr;
  };
  void place(Slot slot);
  void grow(size_t slots);
  std::vector<Slot>
      slots_;  // a power of two, never full; a name stands at its hash or after it, without a gap
  size_t size_ = 0;
};

// Each type of a module once: most values share theirs with many others.
class TypeTable {
 public:
  // Stays where it is as long as the table.
  const Type* keep(const Type& type) { return &*types_.insert(type).first; }

 private:
  struct Hash {
    size_t operator()(const Type& type) const;
  };
  std::unordered_set<Type, Hash> types_;
};

}  // namespace ipu::ir
