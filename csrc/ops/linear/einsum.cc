// Importer of einsum for one or two operands: sums out what only one operand has, then one batched matrix
// product. Three and more operands are contracted from left to right, as torch does without a given path.
#include <fmt/core.h>

#include <map>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// A tensor whose dimensions have letters.
struct Labeled {
  ir::Value* value;
  std::string letters;

  int64_t size(char letter) const { return value->type().shape[letters.find(letter)]; }
  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

Equation parse(AtenImportCall& call, std::string text) {
  std::erase(text, ' ');
  if (text.find('.') != std::string::npos)
    call.unsupported(fmt::format("'...' in the equation \"{}\"; name the dimensions", text));
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation equation;
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    equation.inputs.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  for (const std::string& letters : equation.inputs) {
    for (const char letter : letters) {
      if (std::count(letters.begin(), letters.end(), letter) > 1) {
        call.unsupported(fmt::format("a diagonal (letter '{}' twice in one operand)", letter));
      }
    }
  }
  if (arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    return equation;
  }
  std::map<char, int> seen;  // implicit output: letters that occur once, in alphabetical order
  for (const char letter : left) {
    if (letter != ',') ++seen[letter];
  }
  for (const auto& [letter, count] : seen) {
    if (count == 1) equation.output += letter;
  }
  return equation;
}

Labeled permuted(AtenImportCall& call, const Labeled& x, const std::string& letters) {
  std::vector<int64_t> perm;
  for (const char letter : letters) perm.push_back(static_cast<int64_t>(x.letters.find(letter)));
  return {transposed(call, x.value, perm), letters};
}

// Sums out the letters of x that nobody else needs.
Labeled summed(AtenImportCall& call, const Labeled& x, const std::string& needed) {
  std::vector<int64_t> dims;
  std::string rest;
  for (size_t d = 0; d < x.letters.size(); ++d) {
    if (needed.find(x.letters[d]) == std::string::npos)
      dims.push_back(static_cast<int64_t>(d));
    else
      rest += x.letters[d];
  }
  if (dims.empty()) return x;
  return {call.op("reduce_sum", {x.value}, {{"dims", dims}, {"keep_dims", false}}), rest};
}

Labeled contracted(AtenImportCall& call, const Labeled& left, const Labeled& right,
                   const std::string& needed) {
  const Labeled a = summed(call, left, right.letters + needed),
                b = summed(call, right, left.letters + needed);
  std::string batch, rows, columns, inner;
  for (const char letter : a.letters) {
    const bool stays = needed.find(letter) != std::string::npos;
    (!b.has(letter) ? rows : stays ? batch : inner) += letter;
    if (b.has(letter) && a.size(letter) != b.size(letter)) {
      call.unsupported(
          fmt::format("letter '{}' with sizes {} and {}", letter, a.size(letter), b.size(letter)));
    }
  }
  for (const char letter : b.letters) {
    if (!a.has(letter)) columns += letter;
  }
  const auto extent = [&](const std::string& letters) {
    int64_t product = 1;
    for (const char letter : letters) product *= a.has(letter) ? a.size(letter) : b.size(letter);
    return product;
  };
  const Shape a_shape{extent(batch), extent(rows), extent(inner)},
      b_shape{extent(batch), extent(inner), extent(columns)};
  ir::Value* y =
      call.op("matmul", {reshaped(call, permuted(call, a, batch + rows + inner).value, a_shape),
                         reshaped(call, permuted(call, b, batch + inner + columns).value, b_shape)});
  Shape shape;
  for (const char letter : batch + rows + columns)
    shape.push_back(a.has(letter) ? a.size(letter) : b.size(letter));
  return {reshaped(call, y, shape), batch + rows + columns};
}

void import_einsum(AtenImportCall& call) {
  const Equation equation = parse(call, call.text("equation"));
  const std::vector<ir::Value*> tensors = call.tensors("tensors");
  if (tensors.size() != equation.inputs.size())
    call.unsupported("another number of operands than the equation names");
  Labeled result{tensors[0], equation.inputs[0]};
  for (size_t i = 1; i < tensors.size(); ++i) {
    std::string needed = equation.output;
    for (size_t j = i + 1; j < tensors.size(); ++j) needed += equation.inputs[j];
    result = contracted(call, result, {tensors[i], equation.inputs[i]}, needed);
  }
  result = summed(call, result, equation.output);
  call.set_result(0, permuted(call, result, equation.output).value);
}

struct Registration {
  Registration() { register_aten_importer("einsum", import_einsum); }
};
const Registration registration;

}  // namespace
}  // namespace ipu::ops
