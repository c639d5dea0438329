// The `name=value` lists of the text form as read, with the place of each entry for messages. Tables and
// settings take the fields they know and refuse the rest; attributes of ops take all of them.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/settings.h"
#include "ir/text/lexer.h"
#include "support/attributes.h"

namespace ipu::ir {

// Words of the text for the enumerations of tables, in order of their values.
inline constexpr std::array<std::string_view, 2> kRetrievals{"one_per_group", "all_replicas"};
inline constexpr std::array<std::string_view, 2> kDirections{"host_to_device", "device_to_host"};
inline constexpr std::array<std::string_view, 4> kOutputModes{"final", "every_n", "all", "sum"};

class FieldList {
 public:
  FieldList(const Lexer& lexer, std::string what) : lexer_(&lexer), what_(std::move(what)) {}

  void add(const Token& token, std::string name, Attribute value);  // fails on a second field of that name

  // The field's value, or `fallback` when absent; fails when it is of another kind.
  template <typename T>
  T take(std::string_view name, T fallback);
  std::optional<int> take_index(std::string_view name);          // an integer from 0 to 2147483647
  std::optional<double> take_proportion(std::string_view name);  // a number from 0 to 1
  int take_choice(std::string_view name, std::span<const std::string_view> choices, int fallback);
  Attributes take_prefixed(std::string_view prefix);  // fields "prefix.x" as attributes "x"
  Attributes take_all();
  void finish() const;  // fails when a field is left, naming the known ones

 private:
  const Attribute* find(std::string_view name);
  [[noreturn]] void wrong_kind(std::string_view name, std::string_view expected) const;
  const Lexer* lexer_;
  std::string what_;
  Attributes values_;
  std::map<std::string, Token, std::less<>> tokens_;
  std::vector<std::string> known_;
};

// Reads fields up to, not including, one of the two ends.
FieldList parse_fields(Lexer& lexer, std::string what, std::string_view end, std::string_view other_end);

// Settings as fields, those that differ from the default, and back (finish() included).
Attributes to_attributes(const Settings& settings);
Settings take_settings(FieldList& list);

}  // namespace ipu::ir
