#include "support/attributes.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <new>

#include "support/error.h"

namespace ipu {
namespace {
constexpr size_t kFewEntries = 8;  // names of different length differ at a glance: no search is quicker
}  // namespace

bool equal(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<ConstantPtr>(&a)) {
    const auto& y = std::get<ConstantPtr>(b);
    return *x == y || (*x && y && **x == *y);
  }
  return a == b;
}

Attributes::Attributes(std::initializer_list<Entry> entries) {
  if (entries.size() > 0) own(entries.size());
  for (const Entry& e : entries) set(e.first, e.second);
}

Attributes::Block* Attributes::make_block(size_t capacity) {
  Block* block = new (::operator new(sizeof(Block) + capacity * sizeof(Entry))) Block;
  block->capacity = static_cast<uint32_t>(capacity);
  return block;
}

void Attributes::leave(Block* block) {
  if (block->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::destroy_n(block->entries(), block->size);
  ::operator delete(block);
}

void Attributes::own(size_t capacity) {
  const bool alone = block_ != nullptr && block_->owners.load(std::memory_order_acquire) == 1;
  if (alone && block_->capacity >= capacity) return;
  Block* block = make_block(std::max(capacity, size()));
  try {
    for (size_t i = 0; i < size(); ++i, ++block->size) {
      Entry& entry = block_->entries()[i];
      if (alone)
        new (block->entries() + i) Entry(std::move(entry));
      else
        new (block->entries() + i) Entry(entry);
    }
  } catch (...) {
    leave(block);
    throw;
  }
  if (block_ != nullptr) leave(block_);
  block_ = block;
}

size_t Attributes::place_of(std::string_view name) const {
  const Entry* at =
      std::lower_bound(begin(), end(), name, [](const Entry& e, std::string_view n) { return e.first < n; });
  return static_cast<size_t>(at - begin());
}

void Attributes::set(std::string_view name, Attribute value) {
  const size_t place = place_of(name);
  if (place < size() && begin()[place].first == name) {
    own(size());
    block_->entries()[place].second = std::move(value);
    return;
  }
  std::string owned(name);
  own(size() < (block_ == nullptr ? 0 : block_->capacity) ? size() + 1 : size() * 2 + 1);
  Entry* entries = block_->entries();
  new (entries + block_->size) Entry(std::move(owned), std::move(value));
  ++block_->size;
  std::rotate(entries + place, entries + block_->size - 1, entries + block_->size);
}

bool Attributes::erase(std::string_view name) {
  const size_t place = place_of(name);
  if (place == size() || begin()[place].first != name) return false;
  own(size());
  Entry* entries = block_->entries();
  std::move(entries + place + 1, entries + block_->size, entries + place);
  std::destroy_at(entries + --block_->size);
  return true;
}

const Attribute* Attributes::find(std::string_view name) const {
  if (size() <= kFewEntries) {
    for (const Entry& entry : *this)
      if (entry.first == name) return &entry.second;
    return nullptr;
  }
  const size_t place = place_of(name);
  return place < size() && begin()[place].first == name ? &begin()[place].second : nullptr;
}

template <typename T>
const T& Attributes::get(std::string_view name, const char* kind) const {
  const Attribute* value = find(name);
  if (value == nullptr) throw Error(ErrorCode::kInvalidIr, fmt::format("missing attribute: '{}'", name));
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr)
    throw Error(ErrorCode::kInvalidIr, fmt::format("invalid attribute: '{}' is not {}", name, kind));
  return *typed;
}

bool Attributes::boolean(std::string_view name) const { return get<bool>(name, "a boolean"); }
bool Attributes::boolean(std::string_view name, bool fallback) const {
  return has(name) ? boolean(name) : fallback;
}
int64_t Attributes::integer(std::string_view name) const { return get<int64_t>(name, "an integer"); }
int64_t Attributes::integer(std::string_view name, int64_t fallback) const {
  return has(name) ? integer(name) : fallback;
}
double Attributes::real(std::string_view name) const {
  const Attribute* value = find(name);
  if (value != nullptr)
    if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  return get<double>(name, "a real number");
}
double Attributes::real(std::string_view name, double fallback) const {
  return has(name) ? real(name) : fallback;
}
const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(name, "a string");
}
std::string Attributes::text(std::string_view name, std::string_view fallback) const {
  return has(name) ? text(name) : std::string(fallback);
}
DType Attributes::dtype(std::string_view name) const { return get<DType>(name, "a dtype"); }
const Symbol& Attributes::symbol(std::string_view name) const { return get<Symbol>(name, "a symbol"); }
const std::vector<Symbol>& Attributes::symbols(std::string_view name) const {
  return get<std::vector<Symbol>>(name, "a list of symbols");
}
const ConstantPtr& Attributes::constant(std::string_view name) const {
  return get<ConstantPtr>(name, "a constant");
}
const std::vector<int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<int64_t>>(name, "a list of integers");
}
std::vector<int64_t> Attributes::integers(std::string_view name, std::vector<int64_t> fallback) const {
  return has(name) ? integers(name) : fallback;
}
const std::vector<double>& Attributes::reals(std::string_view name) const {
  return get<std::vector<double>>(name, "a list of real numbers");
}
const std::vector<std::string>& Attributes::texts(std::string_view name) const {
  return get<std::vector<std::string>>(name, "a list of strings");
}

bool Attributes::operator==(const Attributes& other) const {
  return std::equal(begin(), end(), other.begin(), other.end(), [](const Entry& a, const Entry& b) {
    return a.first == b.first && equal(a.second, b.second);
  });
}

}  // namespace ipu
