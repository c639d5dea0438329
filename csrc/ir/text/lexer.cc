#include "ir/text/lexer.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"

namespace ipu::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }
bool is_name_character(char c) { return is_word_character(c) || c == '/' || c == '-'; }
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string shown(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the text";
  std::string text(token.text.substr(0, 40));
  if (token.text.size() > 40) text += "...";
  return fmt::format("'{}'", text);
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character) &&
         name.find("//") == std::string_view::npos;
}

bool is_plain_identifier(std::string_view word) {
  return !word.empty() && is_letter(word[0]) && std::all_of(word.begin(), word.end(), is_word_character);
}

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Token Lexer::take() {
  Token token = token_;
  advance();
  return token;
}

bool Lexer::accept(std::string_view punctuation) {
  if (!token_.is(punctuation)) return false;
  advance();
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!token_.is_word(word)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view punctuation) {
  if (!accept(punctuation)) fail_expected(fmt::format("'{}'", punctuation));
}

Token Lexer::expect(TokenKind kind, std::string_view what) {
  if (token_.kind != kind) fail_expected(what);
  return take();
}

std::string Lexer::name_of(const Token& token) const {
  std::string_view text = token.text;
  if (token.kind == TokenKind::kValue || token.kind == TokenKind::kSymbol) text.remove_prefix(1);
  if (text.empty() || text[0] != '"') return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case '"':
        out += '"';
        break;
      case '\\':
        out += '\\';
        break;
      case 'x': {
        int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
        if (high < 0 || low < 0) fail(token, "\\x in a string needs two hexadecimal digits");
        out += static_cast<char>(high * 16 + low);
        i += 2;
        break;
      }
      default:
        fail(token, fmt::format("unknown escape '\\{}' in a string", text[i]));
    }
  }
  return out;
}

void Lexer::fail(const Token& token, const std::string& what) const {
  size_t offset =
      token.kind == TokenKind::kEnd ? text_.size() : static_cast<size_t>(token.text.data() - text_.data());
  size_t line =
      1 + static_cast<size_t>(std::count(text_.begin(), text_.begin() + static_cast<long>(offset), '\n'));
  size_t begin = offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
  size_t column = offset - begin + 1;
  std::string_view shown_line = text_.substr(begin, std::min(text_.find('\n', begin), text_.size()) - begin);
  std::string message = fmt::format("parse error: {}:{}:{}: {}.", source_name_, line, column, what);
  if (shown_line.size() <= 200) {
    message += fmt::format("\n  {}\n  {}^", shown_line, std::string(column - 1, ' '));
  }
  throw Error(ErrorCode::kParse, message);
}

void Lexer::fail_expected(std::string_view what) const {
  fail(token_, fmt::format("expected {} and found {}", what, shown(token_)));
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at(at_ + 1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

void Lexer::lex_name(TokenKind kind, size_t begin) {
  ++at_;
  if (at(at_) == '"') return lex_string(kind, begin);
  while (at_ < text_.size() && is_name_character(text_[at_]) && !(text_[at_] == '/' && at(at_ + 1) == '/'))
    ++at_;
  set(kind, begin);
  if (at_ == begin + 1) fail(token_, fmt::format("expected a name after '{}'", text_[begin]));
}

void Lexer::lex_string(TokenKind kind, size_t begin) {
  size_t open = at_++;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size() || text_[at_] != '"') {
    at_ = open + 1;
    set(kind, begin);
    fail(token_, "this string is not closed on its line");
  }
  ++at_;
  set(kind, begin);
}

void Lexer::lex_number(size_t begin) {
  if (text_[at_] == '-') ++at_;
  if (text_.substr(at_, 3) == "inf") {
    at_ += 3;
    return set(TokenKind::kReal, begin);
  }
  if (at(at_) == '0' && at(at_ + 1) == 'x' && at_ == begin) {
    at_ += 2;
    while (hex_value(at(at_)) >= 0) ++at_;
    return set(TokenKind::kHex, begin);
  }
  bool real = false;
  while (is_digit(at(at_))) ++at_;
  if (at(at_) == '.' && is_digit(at(at_ + 1))) {
    real = true;
    ++at_;
    while (is_digit(at(at_))) ++at_;
  }
  if (at(at_) == 'e' || at(at_) == 'E') {
    size_t exponent = at_ + 1;
    if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
    if (is_digit(at(exponent))) {
      real = true;
      at_ = exponent;
      while (is_digit(at(at_))) ++at_;
    }
  }
  set(real ? TokenKind::kReal : TokenKind::kInteger, begin);
}

void Lexer::advance() {
  skip_space();
  size_t begin = at_;
  if (at_ >= text_.size()) {
    token_ = {TokenKind::kEnd, text_.substr(text_.size())};
    return;
  }
  char c = text_[at_];
  if (is_letter(c)) {
    while (is_word_character(at(at_))) ++at_;
    set(TokenKind::kIdentifier, begin);
    if (token_.text == "inf" || token_.text == "nan") token_.kind = TokenKind::kReal;
    return;
  }
  if (c == '%') return lex_name(TokenKind::kValue, begin);
  if (c == '@') return lex_name(TokenKind::kSymbol, begin);
  if (c == '"') return lex_string(TokenKind::kString, begin);
  if (c == '#') {
    ++at_;
    while (is_digit(at(at_))) ++at_;
    return set(TokenKind::kLabel, begin);
  }
  if (is_digit(c) || (c == '-' && (is_digit(at(at_ + 1)) || text_.substr(at_ + 1, 3) == "inf")))
    return lex_number(begin);
  if (c == '-' && at(at_ + 1) == '>') {
    at_ += 2;
    return set(TokenKind::kPunctuation, begin);
  }
  ++at_;
  set(TokenKind::kPunctuation, begin);
  if (std::string_view("(){}[]<>,:=|").find(c) == std::string_view::npos)
    fail(token_, "unexpected character " + shown(token_));
}

}  // namespace ipu::ir
