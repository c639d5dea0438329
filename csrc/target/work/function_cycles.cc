#include "target/work/function_cycles.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ipu::target {
namespace {

constexpr double kVectorBytes = 8;  // of the published loops

struct Row {
  std::string_view function;
  double fp32, fp16;   // of a vector: two fp32, four fp16
  double integer = 8;  // of one element: most of them take 7 to 8
};

// poplibs 7eac0f2, performance estimators of the elementwise and nonlinearity vertices: cycles of the loop over vectors. What is published
// for one element is taken two and four times; loops that are not unrolled take 4 more for a load and a store. Of a range the upper end.
constexpr auto kRows = std::to_array<Row>({
    {"Abs", 1 + 2 * 4, 1 + 4 * 4},
    {"Add", 1, 1},
    {"And", 2 * 8, 4 * 8},
    {"AnyOrAll", 2 * 24, 4 * 24, 24},
    {"Asin", 2 * 106, 4 * 106},
    {"Atan2", 272, 578},
    {"cast", 1, 1, 0.5},
    {"Ceil", 2 + 4, 2 + 4},
    {"Cos", 2 * 2304, 4 * 25},
    {"CrossEntropy", 2 * 9, 2 * 9},  // of softmax and loss together
    {"Div", 10, 21, 277},
    {"Eq", 7, 9, 26.0 / 4},
    {"Erf", 2 * 41, 4 * 13},
    {"Exp", 6, 4},
    {"Expm1", 4 + 2 * 4, 5 + 4},
    {"Floor", 2 + 4, 2 + 4},
    {"Fmod", 133, 300, 292},
    {"Ge", 7, 9, 26.0 / 4},
    {"Gelu", 10, 5},  // PopTorch's form, by tanh
    {"GeluSlope", 10, 5},
    {"Gt", 7, 9, 26.0 / 4},
    {"IsNan", 5 + 4, 5 + 4},
    {"Le", 7, 9, 26.0 / 4},
    {"Log", 12, 4},
    {"Log1p", 18 + 4, 18 + 4},
    {"Loss", 2 * 4, 2 * 4},  // of one class; two fp16 at a time
    {"Lt", 7, 9, 26.0 / 4},
    {"Max", 3, 4},
    {"MaxPoolSlope", 5, 5},
    {"Min", 3, 4},
    {"Mul", 1, 1},
    {"Ne", 10, 11, 26.0 / 4},
    {"Neg", 2, 2},
    {"Not", 2 * 8, 4 * 8},
    {"OneHot", 2 * 100, 4 * 100, 100},
    {"Or", 2 * 8, 4 * 8},
    {"Pool", 3, 3},
    {"Pow", 2 * 312, 4 * 325, 32},
    {"Reciprocal", 6, 15},
    {"Relu", 3, 3},
    {"Remainder", 133, 300, 292},
    {"Round", 2 + 4, 2 + 4},
    {"Rsqrt", 8, 19},
    {"select", 4, 4},
    {"Shl", 2 * 8, 4 * 8},
    {"Shr", 2 * 8, 4 * 8},
    {"Sigmoid", 10, 4},
    {"Sign", 5 + 4, 5 + 4},
    {"Sin", 2 * 2304, 4 * 25},
    {"Sqrt", 10, 23},
    {"Sub", 1, 1},
    {"Tan", 2 * 5100, 4 * 5700},
    {"Tanh", 10, 2},
    {"Trunc", 3, 11},
    {"Xor", 2 * 8, 4 * 8},
});

// What the vendor's front end makes others of.
struct Sum {
  std::string_view function;
  std::array<std::string_view, 5> rows;
};
constexpr auto kSums = std::to_array<Sum>({
    {"Acos", {"Asin", "Sub"}},
    {"Acosh", {"Mul", "Sub", "Sqrt", "Add", "Log"}},
    {"Asinh", {"Mul", "Add", "Sqrt", "Add", "Log"}},
    {"Atan", {"Mul", "Add", "Rsqrt", "Mul", "Asin"}},
    {"Atanh", {"Log1p", "Neg", "Log1p", "Sub", "Mul"}},
    {"Cosh", {"Exp", "Reciprocal", "Add", "Mul"}},
    {"Erfc", {"Erf", "Sub"}},
    {"FloorDiv", {"Div", "Floor"}},
    {"Log10", {"Log", "Mul"}},
    {"Log2", {"Log", "Mul"}},
    {"Sinh", {"Exp", "Reciprocal", "Sub", "Mul"}},
});

// What no library of the machine has is a loop in C++ with calls of the mathematics library: as the dearest of those.
constexpr Row kOther{"", 2 * 2304, 4 * 2304};

template <typename Table>
auto find(const Table& table, std::string_view function) {
  const auto* row = std::ranges::find(table, function, &Table::value_type::function);
  return row == table.end() ? nullptr : row;
}

double cycles_of(const Row& row, int64_t element_bytes, ElementType type) {
  if (type == ElementType::kInteger) return row.integer * kVectorBytes / static_cast<double>(element_bytes);
  return element_bytes == 2 ? row.fp16 : row.fp32;
}

}  // namespace

double function_cycles(std::string_view function, int64_t element_bytes, ElementType type) {
  if (function.empty()) return 1;  // a copy: a load and a store at once
  if (const Row* row = find(kRows, function)) return cycles_of(*row, element_bytes, type);
  const Sum* sum = find(kSums, function);
  if (sum == nullptr) return cycles_of(kOther, element_bytes, type);
  return std::accumulate(sum->rows.begin(), sum->rows.end(), 0.0, [&](double cycles, std::string_view row) {
    return row.empty() ? cycles : cycles + cycles_of(*find(kRows, row), element_bytes, type);
  });
}

KnownAs known_as(std::string_view function) {
  if (function.empty() || find(kRows, function) != nullptr) return KnownAs::kRow;
  return find(kSums, function) != nullptr ? KnownAs::kSumOfRows : KnownAs::kNothing;
}

}  // namespace ipu::target
