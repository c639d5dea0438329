#include "ir/text/field_list.h"

#include <fmt/core.h>

#include <limits>

#include "ir/text/literal.h"

namespace ipu::ir {
namespace {

constexpr size_t kMaxFields = 4096;  // Attributes is a sorted vector: bounds what a list of fields may cost

// The kind of a list shows in its elements; an empty one other than of integers has a word before it.
Attribute parse_list(Lexer& lexer, std::string_view word) {
  lexer.expect("[");
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  std::vector<Symbol> symbols;
  size_t count = 0;
  for (; !lexer.peek().is("]"); ++count) {
    if (count > 0) lexer.expect(",");
    Token token = lexer.peek();
    switch (token.kind) {
      case TokenKind::kInteger:
        if (reals.empty()) {
          integers.push_back(parse_integer(lexer));
        } else {
          reals.push_back(parse_real(lexer));
        }
        break;
      case TokenKind::kReal:
      case TokenKind::kHex:
        for (int64_t x : integers) reals.push_back(static_cast<double>(x));  // [1, 0.5]
        integers.clear();
        reals.push_back(parse_real(lexer));
        break;
      case TokenKind::kString:
        texts.push_back(lexer.name_of(lexer.take()));
        break;
      case TokenKind::kSymbol:
        symbols.push_back(Symbol{lexer.name_of(lexer.take())});
        break;
      default:
        lexer.fail_expected("a number, a string or a symbol");
    }
    if (!integers.empty() + !reals.empty() + !texts.empty() + !symbols.empty() > 1)
      lexer.fail(token, "the elements of a list are of one kind");
  }
  lexer.expect("]");
  if (!word.empty() && count > 0) lexer.fail_expected(fmt::format("an empty list after '{}'", word));
  if (!reals.empty() || word == "reals") return reals;
  if (!texts.empty() || word == "strings") return texts;
  if (!symbols.empty() || word == "symbols") return symbols;
  return integers;
}

Attribute parse_attribute(Lexer& lexer) {
  Token token = lexer.peek();
  switch (token.kind) {
    case TokenKind::kInteger:
      return parse_integer(lexer);
    case TokenKind::kReal:
    case TokenKind::kHex:
      return parse_real(lexer);
    case TokenKind::kString:
      return lexer.name_of(lexer.take());
    case TokenKind::kSymbol:
      return Symbol{lexer.name_of(lexer.take())};
    case TokenKind::kIdentifier: {
      lexer.take();
      if (token.text == "true") return true;
      if (token.text == "false") return false;
      if (token.text == "dense") return parse_dense(lexer);
      if (token.text == "reals" || token.text == "strings" || token.text == "symbols")
        return parse_list(lexer, token.text);
      if (std::optional<DType> dtype = dtype_from_string(token.text)) return *dtype;
      lexer.fail(token, fmt::format("unknown word '{}'; strings are in quotes", token.text));
    }
    default:
      break;
  }
  if (token.is("[")) return parse_list(lexer, "");
  lexer.fail_expected("the value of an attribute");
}

template <typename T>
constexpr const char* kind_name() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, int64_t>) return "an integer";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_same_v<T, DType>) return "a dtype";
  if constexpr (std::is_same_v<T, Symbol>) return "a symbol such as @x";
  if constexpr (std::is_same_v<T, ConstantPtr>) return "dense<...>";
  return "a list of integers";
}

constexpr std::array<std::string_view, 2> kTileSets{"compute", "io"};
constexpr std::array<std::string_view, 4> kExchanges{"just_in_time", "overlap_inner_loop", "overlap_loops",
                                                     "overlap_step"};
constexpr std::array<std::string_view, 4> kContexts{"forward", "backward", "accumulate_outer",
                                                    "weight_transfer"};
constexpr std::array<std::string_view, 3> kRecomputes{"default", "recompute", "checkpoint"};

template <typename Enum>
std::string choice(std::span<const std::string_view> names, Enum value) {
  return std::string(names[static_cast<size_t>(value)]);
}

}  // namespace

void FieldList::add(const Token& token, std::string name, Attribute value) {
  if (name.empty()) lexer_->fail(token, "the name of a field is not empty");
  if (tokens_.size() == kMaxFields)
    lexer_->fail(token, fmt::format("a list has at most {} fields", kMaxFields));
  if (!tokens_.emplace(name, token).second)
    lexer_->fail(token, fmt::format("{} '{}' is given twice", what_, name));
  values_.set(name, std::move(value));
}

const Attribute* FieldList::find(std::string_view name) {
  known_.emplace_back(name);
  return values_.find(name);
}

void FieldList::wrong_kind(std::string_view name, std::string_view expected) const {
  lexer_->fail(tokens_.find(name)->second, fmt::format("{} field '{}' is {}", what_, name, expected));
}

template <typename T>
T FieldList::take(std::string_view name, T fallback) {
  const Attribute* value = find(name);
  if (value == nullptr) return fallback;
  const T* typed = std::get_if<T>(value);
  if constexpr (std::is_same_v<T, ConstantPtr>)
    if (lexer_->takes_hashes() && std::holds_alternative<std::string>(*value)) typed = &fallback;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* whole = std::get_if<int64_t>(value)) {
      fallback = static_cast<double>(*whole);
      typed = &fallback;
    }
  }
  if (typed == nullptr) wrong_kind(name, kind_name<T>());
  T taken = *typed;
  values_.erase(name);
  return taken;
}
template bool FieldList::take(std::string_view, bool);
template int64_t FieldList::take(std::string_view, int64_t);
template double FieldList::take(std::string_view, double);
template std::string FieldList::take(std::string_view, std::string);
template DType FieldList::take(std::string_view, DType);
template Symbol FieldList::take(std::string_view, Symbol);
template ConstantPtr FieldList::take(std::string_view, ConstantPtr);
template std::vector<int64_t> FieldList::take(std::string_view, std::vector<int64_t>);

std::optional<int> FieldList::take_index(std::string_view name) {
  if (!values_.has(name)) {
    known_.emplace_back(name);
    return std::nullopt;
  }
  int64_t value = take<int64_t>(name, 0);
  if (value < 0 || value > std::numeric_limits<int>::max())
    wrong_kind(name, "an integer from 0 to 2147483647");
  return static_cast<int>(value);
}

std::optional<double> FieldList::take_proportion(std::string_view name) {
  if (!values_.has(name)) {
    known_.emplace_back(name);
    return std::nullopt;
  }
  double value = take<double>(name, 0.0);
  if (!(value >= 0.0 && value <= 1.0)) wrong_kind(name, "a number from 0 to 1");
  return value;
}

int FieldList::take_choice(std::string_view name, std::span<const std::string_view> choices, int fallback) {
  if (!values_.has(name)) {
    known_.emplace_back(name);
    return fallback;
  }
  std::string value = take<std::string>(name, {});
  std::string all;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == value) return static_cast<int>(i);
    all += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ", choices[i]);
  }
  wrong_kind(name, all);
}

Attributes FieldList::take_prefixed(std::string_view prefix) {
  known_.emplace_back(std::string(prefix) + ".NAME");
  std::string start = std::string(prefix) + ".";
  Attributes taken, rest;
  for (const auto& [name, value] : values_) {
    if (name.size() > start.size() && name.starts_with(start))
      taken.set(name.substr(start.size()), value);
    else
      rest.set(name, value);
  }
  values_ = std::move(rest);
  return taken;
}

Attributes FieldList::take_all() { return std::move(values_); }

void FieldList::finish() const {
  if (values_.empty()) return;
  std::string all;
  for (const std::string& name : known_) all += (all.empty() ? "" : ", ") + name;
  const std::string& name = values_.begin()->first;
  lexer_->fail(tokens_.find(name)->second,
               fmt::format("unknown {} field '{}'; known are {}", what_, name, all));
}

FieldList parse_fields(Lexer& lexer, std::string what, std::string_view end, std::string_view other_end) {
  FieldList list(lexer, std::move(what));
  for (bool first = true; !lexer.peek().is(end) && !lexer.peek().is(other_end); first = false) {
    if (!first) lexer.expect(",");
    Token token = lexer.peek();
    if (token.kind != TokenKind::kIdentifier && token.kind != TokenKind::kString)
      lexer.fail_expected("the name of a field");
    std::string name = lexer.name_of(lexer.take());
    list.add(token, std::move(name), lexer.accept("=") ? parse_attribute(lexer) : Attribute(true));
  }
  return list;
}

Attributes to_attributes(const Settings& s) {
  static const Settings defaults;
  Attributes fields;
  if (!s.block.empty()) fields.set("block", s.block);
  if (s.ipu) fields.set("ipu", int64_t{*s.ipu});
  if (s.stage) fields.set("stage", int64_t{*s.stage});
  if (s.phase) fields.set("phase", int64_t{*s.phase});
  if (s.tile_set != defaults.tile_set) fields.set("tile_set", choice(kTileSets, s.tile_set));
  if (s.exchange != defaults.exchange) fields.set("exchange", choice(kExchanges, s.exchange));
  if (s.context != defaults.context) fields.set("context", choice(kContexts, s.context));
  if (s.recompute != defaults.recompute) fields.set("recompute", choice(kRecomputes, s.recompute));
  if (s.no_grad) fields.set("no_grad", true);
  if (s.priority != 0.0) fields.set("priority", s.priority);
  if (s.available_memory) fields.set("available_memory", *s.available_memory);
  for (const auto& [name, value] : s.outline) fields.set("outline." + name, value);
  return fields;
}

Settings take_settings(FieldList& list) {
  Settings s;
  s.block = list.take<std::string>("block", "");
  s.ipu = list.take_index("ipu");
  s.stage = list.take_index("stage");
  s.phase = list.take_index("phase");
  s.tile_set = static_cast<TileSet>(list.take_choice("tile_set", kTileSets, 0));
  s.exchange = static_cast<ExchangeStrategy>(list.take_choice("exchange", kExchanges, 0));
  s.context = static_cast<Context>(list.take_choice("context", kContexts, 0));
  s.recompute = static_cast<Recompute>(list.take_choice("recompute", kRecomputes, 0));
  s.no_grad = list.take<bool>("no_grad", false);
  s.priority = list.take<double>("priority", 0.0);
  s.available_memory = list.take_proportion("available_memory");
  s.outline = list.take_prefixed("outline");
  list.finish();
  return s;
}

}  // namespace ipu::ir
