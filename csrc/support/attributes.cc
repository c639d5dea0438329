#include "support/attributes.h"

#include <fmt/core.h>

#include <algorithm>

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

void Attributes::set(std::string_view name, Attribute value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const Entry& e, std::string_view n) { return e.first < n; });
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.emplace(at, std::string(name), std::move(value));
}

bool Attributes::erase(std::string_view name) {
  return std::erase_if(entries_, [&](const Entry& e) { return e.first == name; }) > 0;
}

const Attribute* Attributes::find(std::string_view name) const {
  if (entries_.size() <= kFewEntries) {
    for (const Entry& entry : entries_)
      if (entry.first == name) return &entry.second;
    return nullptr;
  }
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const Entry& e, std::string_view n) { return e.first < n; });
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

template <typename T>
const T& Attributes::get(std::string_view name, const char* kind) const {
  const Attribute* value = find(name);
  IPU_CHECK(value != nullptr, fmt::format("attribute '{}' is missing", name));
  const T* typed = std::get_if<T>(value);
  IPU_CHECK(typed != nullptr, fmt::format("attribute '{}' is not {}", name, kind));
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
