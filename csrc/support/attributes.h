// Compile-time values attached to ops, kernels and steps: a closed set of kinds, kept sorted by name so that
// printing, hashing and comparing are deterministic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/dtype.h"
#include "support/shape.h"

namespace ipu {

// Reference to a graph, variable, stream, ring or remote buffer of the module; printed "@name".
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};

// Dense constant data, contiguous, shared and never modified after it was made.
struct ConstantData {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
  bool operator==(const ConstantData&) const = default;
};
using ConstantPtr = std::shared_ptr<const ConstantData>;

using Attribute =
    std::variant<bool, int64_t, double, std::string, DType, Symbol, ConstantPtr, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, std::vector<Symbol>>;

bool equal(const Attribute& a, const Attribute& b);  // constants by content

// Copies share their entries until one of them is changed. Copies may be used on several threads.
class Attributes {
 public:
  using Entry = std::pair<std::string, Attribute>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries);
  Attributes(const Attributes& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Attributes(Attributes&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Attributes& operator=(Attributes other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Attributes() {
    if (block_ != nullptr) leave(block_);
  }

  void set(std::string_view name, Attribute value);
  bool erase(std::string_view name);
  const Attribute* find(std::string_view name) const;  // nullptr when absent
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // Typed reads; IPU_CHECK when absent or of another kind. The two-argument forms give `fallback` when
  // absent.
  bool boolean(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback) const;
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name) const;  // accepts an integer too
  double real(std::string_view name, double fallback) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  DType dtype(std::string_view name) const;
  const Symbol& symbol(std::string_view name) const;
  const std::vector<Symbol>& symbols(std::string_view name) const;
  const ConstantPtr& constant(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback) const;
  const std::vector<double>& reals(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;

  const Entry* begin() const { return block_ == nullptr ? nullptr : block_->entries(); }
  const Entry* end() const { return begin() + size(); }
  size_t size() const { return block_ == nullptr ? 0 : block_->size; }
  bool empty() const { return size() == 0; }
  bool operator==(const Attributes& other) const;

 private:
  // Followed by `capacity` places, of which the first `size` hold entries, sorted by name.
  struct alignas(8) Block {
    std::atomic<uint32_t> owners = 1;
    uint32_t size = 0, capacity = 0;
    Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
  };
  static_assert(sizeof(Block) % alignof(Entry) == 0 && alignof(Entry) <= alignof(std::max_align_t));
  static Block* make_block(size_t capacity);
  static void leave(Block* block);  // the last owner frees it
  template <typename T>
  const T& get(std::string_view name, const char* kind) const;
  size_t place_of(std::string_view name) const;  // of the first entry that does not come before it
  void own(size_t capacity);                     // its entries are in a block of its own with so many places
  Block* block_ = nullptr;
};

}  // namespace ipu
