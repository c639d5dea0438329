#include "support/foreign_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace ipu {
namespace {

// Length of the character at the beginning of `text` and its number; length 0: no character of UTF-8.
std::pair<size_t, uint32_t> first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {0, 0};
  uint32_t number = lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {0, 0};
    number = number << 6 | (next & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kFirstOfLength{0, 0, 0x80, 0x800, 0x10000};
  if (number < kFirstOfLength[length] || (number >= 0xd800 && number < 0xe000) || number > 0x10ffff)
    return {0, 0};
  return {length, number};
}

// Control characters, and those that hide text or turn its direction.
bool is_printable(uint32_t c) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 8> kHidden{{{0, 0x1f},
                                                                  {0x7f, 0x9f},
                                                                  {0x200b, 0x200f},
                                                                  {0x2028, 0x202e},
                                                                  {0x2060, 0x206f},
                                                                  {0xfeff, 0xfeff},
                                                                  {0xfff9, 0xfffb},
                                                                  {0xe0000, 0xe007f}}};
  return std::none_of(kHidden.begin(), kHidden.end(),
                      [&](const auto& range) { return c >= range.first && c <= range.second; });
}

void append_escaped(std::string& to, std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (unsigned char byte : bytes) {
    to += "\\x";
    to += kDigits[byte >> 4];
    to += kDigits[byte & 15];
  }
}

std::string escaped(std::string_view text, bool one_line) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [length, number] = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(bytes.size());
    if (number == '\n' || number == '\t') {
      result += one_line ? " " : bytes;
      if (one_line) text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    } else if (length > 0 && is_printable(number)) {
      result += bytes;
    } else {
      append_escaped(result, bytes);
    }
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string quotation(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return escaped(text, true);
  size_t end = max_bytes;  // not within a character
  while (end > 0 && max_bytes - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return fmt::format("{}... ({} bytes)", escaped(text.substr(0, end), true), text.size());
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = first_character(text).first;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace ipu
