// Reads machine files: one object of numbers, each bare or an object with its tag and source, comments allowed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "support/error.h"
#include "target/machine.h"

namespace ipu::target {
namespace {

constexpr std::array<std::string_view, 4> kTags{"given", "measured", "derived", "fitted"};

// One member of an object, with the line of its key.
struct Member {
  std::string key;
  int line = 0;
  std::optional<double> number;
  std::optional<std::string> text;
  std::vector<Member> members;
  bool is_object = false;
};

// Counts the lines it has passed.
struct LineIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  int* line;
  reference operator*() const { return *at; }
  LineIterator& operator++() {
    *line += *at++ == '\n';
    return *this;
  }
  LineIterator operator++(int) {
    LineIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineIterator& other) const { return at == other.at; }
  bool operator!=(const LineIterator& other) const { return at != other.at; }
};

class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(const std::string& path, std::string_view text) : path_(path) {
    root_.is_object = true;
    const LineIterator begin{std::to_address(text.begin()), &line_}, end{std::to_address(text.end()), &line_};
    nlohmann::json::sax_parse(begin, end, this, nlohmann::json::input_format_t::json, true, true);
  }
  const Member& root() const { return root_; }

  [[noreturn]] void refuse(int line, const std::string& why) const {
    throw Error(ErrorCode::kEnvironment,
                fmt::format("machine file not understood: {}:{}: {}", path_, line, why));
  }

  bool number_integer(number_integer_t value) override { return scalar(static_cast<double>(value), {}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(static_cast<double>(value), {}); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value, {}); }
  bool string(string_t& value) override { return scalar({}, value); }
  bool null() override { refuse_here("null"); }
  bool boolean(bool) override { refuse_here("a truth value"); }
  bool binary(binary_t&) override { refuse_here("binary data"); }
  bool start_array(std::size_t) override { refuse_here("a list"); }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    if (open_.empty()) {
      open_ = {&root_};
      return true;
    }
    if (open_.size() > 1) refuse_here("an object within a number");
    Member& member = current();
    member.is_object = true;
    open_.push_back(&member);
    return true;
  }
  bool key(string_t& name) override {
    for (const Member& other : open_.back()->members)
      if (other.key == name)
        refuse(line_, fmt::format("'{}' stands twice, first in line {}", name, other.line));
    open_.back()->members.push_back({name, line_, {}, {}, {}, false});
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string& token, const nlohmann::json::exception& error) override {
    std::string why = error.what();
    if (size_t at = why.find(": "); at != std::string::npos) why = why.substr(at + 2);
    refuse(line_, fmt::format("this is no JSON (comments are allowed), near '{}': {}", token, why));
  }

 private:
  Member& current() { return open_.back()->members.back(); }
  [[noreturn]] void refuse_here(const std::string& what) {
    if (open_.empty()) refuse(line_, "a machine is an object of numbers, and this is " + what);
    const Member& member = current();
    refuse(member.line,
           fmt::format("'{}' is {}; it must be a number, an object or a text", member.key, what));
  }
  bool scalar(std::optional<double> number, std::optional<std::string> text) {
    if (open_.empty()) refuse_here(number ? "a number" : "a text");
    current().number = number;
    current().text = std::move(text);
    return true;
  }

  const std::string& path_;
  int line_ = 1;
  Member root_;
  std::vector<Member*> open_;
};

std::string plain(double value) { return fmt::format("{:.10g}", value); }

// What an object says of its number; `field` is one of its texts.
std::string text_of(const Reader& reader, const Member& number, const char* field, Tag tag) {
  for (const Member& member : number.members)
    if (member.key == field && member.text && !member.text->empty()) return *member.text;
  reader.refuse(number.line, fmt::format("'{}' is {} and says no \"{}\"", number.key,
                                         kTags[static_cast<size_t>(tag)], field));
}

void read_fields(const Reader& reader, const Member& member, MachineNumber* number) {
  static const std::vector<std::string> fields{"value",   "tag",  "source", "formula",
                                               "meaning", "rows", "without"};
  const Member* tag = nullptr;
  const Member* value = nullptr;
  for (const Member& field : member.members) {
    if (std::find(fields.begin(), fields.end(), field.key) == fields.end())
      reader.refuse(field.line, fmt::format("'{}' of '{}' is unknown{}: known are {}", field.key, member.key,
                                            suggestion(field.key, fields), fmt::join(fields, ", ")));
    if (field.key == "tag") tag = &field;
    if (field.key == "value") value = &field;
  }
  if (value == nullptr || !value->number)
    reader.refuse(member.line, fmt::format("'{}' has no \"value\" that is a number", member.key));
  number->value = *value->number;
  const std::string word = tag != nullptr && tag->text ? *tag->text : "";
  const auto known = std::find(kTags.begin(), kTags.end(), word);
  if (known == kTags.end())
    reader.refuse(tag == nullptr ? member.line : tag->line,
                  fmt::format("'{}' has the tag '{}'{}: known are {}", member.key, word,
                              suggestion(word, {kTags.begin(), kTags.end()}), fmt::join(kTags, ", ")));
  number->tag = static_cast<Tag>(known - kTags.begin());
  const bool is_fitted = number->tag == Tag::kFitted;
  const char* source = is_fitted ? "meaning" : number->tag == Tag::kDerived ? "formula" : "source";
  number->source = text_of(reader, member, source, number->tag);
  if (!is_fitted) return;
  number->rows = text_of(reader, member, "rows", number->tag);
  number->without = text_of(reader, member, "without", number->tag);
}

void read_number(const Reader& reader, const Member& member, const std::string& path, Machine* machine) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"about", "inherits"};
    for (const MachineKey& key : machine_keys()) all.emplace_back(key.name);
    return all;
  }();
  const auto found = std::find(names.begin() + 2, names.end(), member.key);
  if (found == names.end())
    reader.refuse(member.line, fmt::format("'{}' is unknown{}: `poptorch machine` lists the keys", member.key,
                                           suggestion(member.key, names)));
  const size_t index = static_cast<size_t>(found - names.begin()) - 2;
  const MachineKey& key = machine_keys()[index];
  const std::string place = fmt::format("{}:{}", path, member.line);
  MachineNumber number{member.key, 0, Tag::kGiven, "this file", "", "", place};
  if (member.is_object)
    read_fields(reader, member, &number);
  else if (member.number)
    number.value = *member.number;
  else
    reader.refuse(member.line, fmt::format("'{}' is a text; it must be a number", member.key));
  const bool fits = number.value >= key.least && number.value <= key.most;
  if (!fits || (key.whole && number.value != std::floor(number.value)))
    reader.refuse(member.line, fmt::format("'{}' is {}; it must be a {}number from {} to {}", member.key,
                                           plain(number.value), key.whole ? "whole " : "", plain(key.least),
                                           plain(key.most)));
  machine->numbers[index] = std::move(number);
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    std::vector<size_t> row(candidate.size() + 1);  // edits from the first letters of `word` to those of it
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 0; i < word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < candidate.size(); ++j) {
        const size_t replaced = diagonal + (word[i] != candidate[j]);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() >= least) continue;
    least = row.back();
    best = &candidate;
  }
  return best == nullptr ? "" : fmt::format(" (did you mean '{}'?)", *best);
}

Machine parse_machine(std::string_view name, std::string_view text, const std::string& path) {
  const Reader reader(path, text);
  Machine machine;
  machine.numbers.resize(machine_keys().size());
  for (const Member& member : reader.root().members) {
    if (member.key != "inherits" && member.key != "about") continue;
    if (!member.text) reader.refuse(member.line, fmt::format("'{}' must be a text", member.key));
    if (member.key == "about") continue;
    const bool is_name = member.text->find('/') == std::string::npos && !member.text->ends_with(".json");
    const Machine* parent = is_name ? find_machine(*member.text) : nullptr;
    if (parent == nullptr)
      reader.refuse(member.line,
                    fmt::format("no machine has the name '{}'{}: known are {}", *member.text,
                                suggestion(*member.text, machine_names()), fmt::join(machine_names(), ", ")));
    machine = *parent;
  }
  machine.name = name;
  for (const Member& member : reader.root().members) {
    if (member.key == "about") machine.about = *member.text;
    if (member.key == "about" || member.key == "inherits") continue;
    read_number(reader, member, path, &machine);
  }
  for (size_t i = 0; i < machine.numbers.size(); ++i)
    if (machine.numbers[i].key.empty())
      reader.refuse(1, fmt::format("'{}' is missing, and no machine is inherited (\"inherits\": \"gc200\")",
                                   machine_keys()[i].name));
  for (const char* part : {"executable_bytes", "element_bytes"})
    if (machine[part] > machine["bytes_per_tile"])
      throw Error(
          ErrorCode::kEnvironment,
          fmt::format("machine file not understood: {}: '{}' is {}, more than 'bytes_per_tile', {} ({})",
                      machine.number(part).place, part, plain(machine[part]),
                      plain(machine["bytes_per_tile"]), machine.number("bytes_per_tile").place));
  machine.system = {machine.name,
                    machine.whole("ipu_version"),
                    machine.whole("ipus"),
                    machine.whole("tiles"),
                    machine.whole("bytes_per_tile"),
                    machine["clock_hz"],
                    machine.whole("workers")};
  return machine;
}

}  // namespace ipu::target
