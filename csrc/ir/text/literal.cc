#include "ir/text/literal.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/error.h"
#include "support/half.h"

namespace ipu::ir {
namespace {

constexpr int64_t kDecimalElements = 64;  // more are written as hexadecimal bytes
constexpr int64_t kSplatElements = 4096;  // bound on what a few characters of text may allocate

std::string hex(uint64_t bits, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, bits >>= 4) text[static_cast<size_t>(i)] = kDigits[bits & 15];
  return text;
}

template <typename Float, typename Bits>
std::string float_literal(Float value) {
  if (std::isnan(value)) {
    Bits bits = std::bit_cast<Bits>(value);
    if (bits == std::bit_cast<Bits>(std::numeric_limits<Float>::quiet_NaN())) return "nan";
    return "0x" + hex(bits, 2 * sizeof(Bits));
  }
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// Little-endian hosts only, as everywhere in this project.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string element_literal(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return float_literal<float, uint32_t>(load<float>(at));
    case DType::kF64:
      return float_literal<double, uint64_t>(load<double>(at));
    case DType::kF16: {
      float value = half_to_float(load<uint16_t>(at));
      if (std::isnan(value) || float_to_half(value) != load<uint16_t>(at))
        return "0x" + hex(load<uint16_t>(at), 4);
      return float_literal<float, uint32_t>(value);
    }
    case DType::kF8_143:
    case DType::kF8_152:
      return "0x" + hex(load<uint8_t>(at), 2);
    case DType::kI32:
      return std::to_string(load<int32_t>(at));
    case DType::kU32:
      return std::to_string(load<uint32_t>(at));
    case DType::kI16:
      return std::to_string(load<int16_t>(at));
    case DType::kU16:
      return std::to_string(load<uint16_t>(at));
    case DType::kI8:
      return std::to_string(load<int8_t>(at));
    case DType::kU8:
      return std::to_string(load<uint8_t>(at));
    case DType::kI64:
      return std::to_string(load<int64_t>(at));
    case DType::kBool: {
      uint8_t value = load<uint8_t>(at);
      return value > 1 ? "0x" + hex(value, 2) : value == 1 ? "true" : "false";
    }
  }
  return "?";
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
T number_from(const Lexer& lexer, const Token& token, std::string_view what) {
  T value{};
  auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (error == std::errc::result_out_of_range || end != token.text.data() + token.text.size())
    lexer.fail(token, fmt::format("'{}' is out of range for {}", token.text.substr(0, 40), what));
  return value;
}

uint64_t bits_from(const Lexer& lexer, const Token& token, int digits) {
  if (token.text.size() != static_cast<size_t>(digits) + 2)
    lexer.fail(token, fmt::format("a bit pattern here has {} hexadecimal digits", digits));
  uint64_t bits = 0;
  std::from_chars(token.text.data() + 2, token.text.data() + token.text.size(), bits, 16);
  return bits;
}

template <typename T>
void store_integer(const Lexer& lexer, const Token& token, DType dtype, std::byte* at) {
  if (token.kind != TokenKind::kInteger)
    lexer.fail(token, fmt::format("an element of {} is an integer", to_string(dtype)));
  store(at, number_from<T>(lexer, token, to_string(dtype)));
}

void parse_element(Lexer& lexer, DType dtype, std::byte* at) {
  Token token = lexer.take();
  int64_t bytes = size_in_bytes(dtype);
  if (token.kind == TokenKind::kHex) {
    uint64_t bits = bits_from(lexer, token, static_cast<int>(2 * bytes));
    std::memcpy(at, &bits, static_cast<size_t>(bytes));
    return;
  }
  bool number = token.kind == TokenKind::kReal || token.kind == TokenKind::kInteger;
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kF64: {
      if (!number) lexer.fail(token, fmt::format("an element of {} is a number", to_string(dtype)));
      if (dtype == DType::kF64) return store(at, number_from<double>(lexer, token, "f64"));
      float value = number_from<float>(lexer, token, "f32");
      if (dtype == DType::kF32) return store(at, value);
      uint16_t half = float_to_half(value);
      if (std::isinf(half_to_float(half)) && !std::isinf(value))
        lexer.fail(token, fmt::format("'{}' is out of range for f16", token.text));
      return store(at, half);
    }
    case DType::kF8_143:
    case DType::kF8_152:
      lexer.fail(token, fmt::format("an element of {} is a bit pattern such as 0x3c", to_string(dtype)));
    case DType::kI32:
      return store_integer<int32_t>(lexer, token, dtype, at);
    case DType::kU32:
      return store_integer<uint32_t>(lexer, token, dtype, at);
    case DType::kI16:
      return store_integer<int16_t>(lexer, token, dtype, at);
    case DType::kU16:
      return store_integer<uint16_t>(lexer, token, dtype, at);
    case DType::kI8:
      return store_integer<int8_t>(lexer, token, dtype, at);
    case DType::kU8:
      return store_integer<uint8_t>(lexer, token, dtype, at);
    case DType::kI64:
      return store_integer<int64_t>(lexer, token, dtype, at);
    case DType::kBool:
      if (!token.is_word("true") && !token.is_word("false"))
        lexer.fail(token, "an element of bool is true or false");
      return store(at, static_cast<uint8_t>(token.is_word("true")));
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void parse_bytes(const Lexer& lexer, const Token& token, std::vector<std::byte>& bytes, int64_t size) {
  std::string_view digits = token.text.substr(1, token.text.size() - 2);
  if (static_cast<int64_t>(digits.size()) != 2 * size)
    lexer.fail(token, fmt::format("this constant has {} bytes, the text {} hexadecimal digits", size,
                                  digits.size()));
  bytes.resize(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) {
    int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) lexer.fail(token, "bytes of a constant are written with the digits 0-9 and a-f");
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
}

bool all_equal(const ConstantData& data, int64_t width) {
  return std::memcmp(data.bytes.data(), data.bytes.data() + width,
                     data.bytes.size() - static_cast<size_t>(width)) == 0;
}

}  // namespace

std::string real_literal(double value) { return float_literal<double, uint64_t>(value); }

double parse_real(Lexer& lexer) {
  Token token = lexer.take();
  if (token.kind == TokenKind::kHex) return std::bit_cast<double>(bits_from(lexer, token, 16));
  if (token.kind != TokenKind::kReal && token.kind != TokenKind::kInteger)
    lexer.fail(token, "expected a number");
  return number_from<double>(lexer, token, "a real number");
}

int64_t parse_integer(Lexer& lexer) {
  Token token = lexer.expect(TokenKind::kInteger, "an integer");
  return number_from<int64_t>(lexer, token, "a 64-bit integer");
}

uint64_t content_hash(const ConstantData& data) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  auto add = [&](const std::byte* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  };
  std::byte dtype{static_cast<unsigned char>(data.dtype)};
  add(&dtype, 1);
  add(reinterpret_cast<const std::byte*>(data.shape.data()), data.shape.size() * sizeof(int64_t));
  add(data.bytes.data(), data.bytes.size());
  return hash;
}

std::string dense_literal(const ConstantData& data, int64_t max_elements) {
  int64_t count = element_count(data.shape), width = size_in_bytes(data.dtype);
  std::string text = fmt::format("dense<{}{}: ", ipu::to_string(data.dtype),
                                 ipu::to_string(std::span<const int64_t>(data.shape)));
  bool scalar = data.shape.empty();
  if (scalar || (count > 1 && count <= kSplatElements && all_equal(data, width))) {
    text += element_literal(data.dtype, data.bytes.data());
  } else if (count > max_elements) {
    text += fmt::format("#{}", content_hash(data));
  } else if (count > kDecimalElements) {
    static constexpr char kDigits[] = "0123456789abcdef";
    text.reserve(text.size() + 2 * data.bytes.size() + 4);
    text += '"';
    for (std::byte b : data.bytes) {
      text += kDigits[static_cast<unsigned>(b) >> 4];
      text += kDigits[static_cast<unsigned>(b) & 15];
    }
    text += '"';
  } else {
    text += '[';
    for (int64_t i = 0; i < count; ++i)
      text += (i ? ", " : "") + element_literal(data.dtype, data.bytes.data() + i * width);
    text += ']';
  }
  return text + ">";
}

Shape parse_shape(Lexer& lexer, DType dtype) {
  Token open = lexer.peek();
  lexer.expect("[");
  Shape shape;
  while (!lexer.peek().is("]")) {
    if (!shape.empty()) lexer.expect(",");
    Token extent = lexer.peek();
    shape.push_back(parse_integer(lexer));
    if (shape.back() < 0) lexer.fail(extent, "an extent of a shape is not negative");
  }
  lexer.expect("]");
  // Zero extents must not hide an overflow: strides are products of the others.
  Shape positive;
  for (int64_t extent : shape) positive.push_back(std::max<int64_t>(extent, 1));
  try {
    size_in_bytes(dtype, positive);
  } catch (const Error&) {
    lexer.fail(open, "the size of this shape does not fit 64 bits");
  }
  return shape;
}

Attribute parse_dense(Lexer& lexer) {
  lexer.expect("<");
  auto data = std::make_shared<ConstantData>();
  Token name = lexer.expect(TokenKind::kIdentifier, "a dtype");
  std::optional<DType> dtype = dtype_from_string(name.text);
  if (!dtype) lexer.fail(name, fmt::format("unknown dtype '{}'", name.text));
  data->dtype = *dtype;
  data->shape = parse_shape(lexer, *dtype);
  lexer.expect(":");
  int64_t count = element_count(data->shape), width = size_in_bytes(*dtype);
  Token first = lexer.peek();
  if (first.kind == TokenKind::kLabel && lexer.takes_hashes()) {
    lexer.take();
    lexer.expect(">");
    return std::string(first.text);
  }
  if (first.kind == TokenKind::kLabel) {
    lexer.fail(first, "this constant was printed as a hash only; print it with all elements to read it back");
  } else if (first.kind == TokenKind::kString) {
    parse_bytes(lexer, lexer.take(), data->bytes, count * width);
  } else if (lexer.accept("[")) {
    int64_t read = 0;
    for (; !lexer.peek().is("]"); ++read) {
      if (read > 0) lexer.expect(",");
      if (read == count)
        lexer.fail(lexer.peek(),
                   fmt::format("this constant has more than the {} elements of its shape", count));
      data->bytes.resize(static_cast<size_t>((read + 1) * width));
      parse_element(lexer, *dtype, data->bytes.data() + read * width);
    }
    if (read != count)
      lexer.fail(lexer.peek(), fmt::format("this constant has {} elements, its shape {}", read, count));
    lexer.expect("]");
  } else {
    if (count > kSplatElements)
      lexer.fail(first,
                 fmt::format("one element stands for at most {} equal ones, not {}", kSplatElements, count));
    data->bytes.resize(static_cast<size_t>(std::max<int64_t>(count, 1) * width));
    parse_element(lexer, *dtype, data->bytes.data());
    for (int64_t i = 1; i < count; ++i)
      std::memcpy(data->bytes.data() + i * width, data->bytes.data(), static_cast<size_t>(width));
    data->bytes.resize(static_cast<size_t>(count * width));
  }
  lexer.expect(">");
  return ConstantPtr(std::move(data));
}

}  // namespace ipu::ir
