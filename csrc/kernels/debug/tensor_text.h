// A tensor as text, in the manner of ipu_print_tensor: a row is a line, brackets of further dimensions stand on lines of
// their own, indented by one blank for each that is open. Long dimensions are summarised by their ends.
#pragma once

#include <cstddef>
#include <string>

#include "support/attributes.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

enum class FloatFormat : uint8_t {
  kAuto,        // fixed, or scientific when the largest is >= 1e8 or the smallest, except 0, below 1e-4
  kFixed,       // `digits` - 1 decimals: numbers from 1 to 10 have `digits`
  kScientific,  // as many, and an exponent
  kNone         // the shortest text that reads back as the same number
};

// More decimals than any number has use for, and few enough for every element to fit a line of text.
inline constexpr int64_t kMaxDigits = 100;

struct TextFormat {
  int64_t summarise_threshold =
      1000;                     // elements above which only the ends of a dimension are shown; 0: never
  int64_t edge_items = 3;       // shown at each end
  int64_t max_line_width = 80;  // of a row, which goes on two blanks deeper; 0: any
  int64_t digits = 4;           // 0 to kMaxDigits
  FloatFormat float_format = FloatFormat::kAuto;
  // In the manner of NumPy: elements are filled up on the left to the widest one (not with digits = 0), and brackets of
  // further dimensions have no lines of their own.
  bool aligned = false;
  char separator = ',', open_bracket = '(', close_bracket = ')';
};

// `data`: contiguous elements of `spec`.
std::string tensor_text(const TensorSpec& spec, const std::byte* data, const TextFormat& format);

}  // namespace ipu::kernels
