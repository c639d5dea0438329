// Tokens of the text form (docs/ir.md). Not for users: the parser is the only reader.
// The lexer never copies: a token is a piece of the text, and line and column are computed for an error only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ipu::ir {

enum class TokenKind : uint8_t {
  kEnd,
  kIdentifier,   // graph, f32, transpose, variable.read
  kValue,        // %name, %"any name"
  kSymbol,       // @name, @"any name"
  kLabel,        // #12
  kInteger,      // 12, -3
  kReal,         // 0.5, 1e-05, inf, -inf, nan
  kHex,          // 0x3f800000: bits
  kString,       // "text"
  kPunctuation,  // ( ) { } [ ] < > , : = | ->
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // as written, with % @ # and quotes
  bool is(std::string_view punctuation) const {
    return kind == TokenKind::kPunctuation && text == punctuation;
  }
  bool is_word(std::string_view word) const { return kind == TokenKind::kIdentifier && text == word; }
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view source_name, bool takes_hashes = false)
      : text_(text), source_name_(source_name), takes_hashes_(takes_hashes) {
    advance();
  }
  bool takes_hashes() const { return takes_hashes_; }  // in place of constants (ParseOptions)

  const Token& peek() const { return token_; }
  Token take();
  bool accept(std::string_view punctuation);  // takes it when it is next
  bool accept_word(std::string_view word);
  void expect(std::string_view punctuation);
  Token expect(TokenKind kind, std::string_view what);
  std::string_view text() const { return text_; }
  size_t offset() const {
    return static_cast<size_t>(token_.text.data() - text_.data());
  }  // of the next token

  // Name of a value or symbol, text of a string: without sigil and quotes, escapes resolved.
  std::string name_of(const Token& token) const;

  // Throws Error(kParse): "parse error: source:line:column: what", the line and a caret.
  [[noreturn]] void fail(const Token& token, const std::string& what) const;
  [[noreturn]] void fail_expected(
      std::string_view what) const;  // "expected WHAT and found TOKEN" at the next token

 private:
  void advance();
  void skip_space();
  void lex_name(TokenKind kind, size_t begin);
  void lex_number(size_t begin);
  void lex_string(TokenKind kind, size_t begin);
  void set(TokenKind kind, size_t begin) { token_ = {kind, text_.substr(begin, at_ - begin)}; }
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_, source_name_;
  bool takes_hashes_;
  size_t at_ = 0;
  Token token_;
};

bool is_plain_name(std::string_view name);        // printable after % or @ without quotes
bool is_plain_identifier(std::string_view word);  // printable as kind or attribute name without quotes
std::string quoted(std::string_view text);        // "text" with escapes

}  // namespace ipu::ir
