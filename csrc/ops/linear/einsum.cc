// Importer of einsum for one or two operands: sums out what only one operand has, then one batched matrix
// product. Three and more operands are contracted from left to right, as torch does without a given path.
#include <fmt/core.h>

#include <map>

#include "ops/definition/node_support.h"
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

// Letters for the dimensions of "...", the last ones for the last dimensions; no equation may name them.
constexpr std::string_view kEllipsis = "0123456789";

// The letters of one operand of `rank` dimensions.
std::string letters_of(ImportCall& call, std::string text, size_t rank) {
  const size_t dots = text.find("...");
  if (dots != std::string::npos) {
    const size_t named = text.size() - 3;
    if (rank < named || rank - named > kEllipsis.size())
      call.unsupported(fmt::format("'...' in \"{}\" for a tensor of {} dimensions", text, rank));
    text.replace(dots, 3, kEllipsis.substr(kEllipsis.size() - (rank - named)));
  }
  if (text.size() != rank) call.unsupported(fmt::format("\"{}\" for a tensor of {} dimensions", text, rank));
  return text;
}

Equation parse(ImportCall& call, std::string text, const std::vector<ir::Value*>& tensors) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation equation;
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    equation.inputs.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  if (tensors.size() != equation.inputs.size())
    call.unsupported("another number of operands than the equation names");
  size_t widest = 0;  // of the dimensions that "..." stands for
  std::map<char, int> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string& letters = equation.inputs[i];
    letters = letters_of(call, letters, tensors[i]->type().shape.size());
    for (const char letter : letters) ++seen[letter];
    widest = std::max<size_t>(widest, std::ranges::count_if(letters, [](char c) {
                                return kEllipsis.find(c) != std::string_view::npos;
                              }));
  }
  const std::string_view shared = kEllipsis.substr(kEllipsis.size() - widest);
  if (arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    const size_t dots = equation.output.find("...");
    if (dots != std::string::npos) equation.output.replace(dots, 3, shared);
    return equation;
  }
  equation.output = shared;
  for (const auto& [letter, count] : seen) {  // letters that occur once, in alphabetical order
    if (count == 1 && kEllipsis.find(letter) == std::string_view::npos) equation.output += letter;
  }
  return equation;
}

// A letter that stands twice in one operand names the diagonal of the two dimensions.
Labeled without_repeats(ImportCall& call, Labeled x) {
  for (size_t first = 0; first < x.letters.size(); ++first) {
    for (size_t second; (second = x.letters.find(x.letters[first], first + 1)) != std::string::npos;) {
      const Shape shape = x.value->type().shape;
      const int64_t size = shape[first];
      if (shape[second] != size)
        call.unsupported(
            fmt::format("letter '{}' with sizes {} and {}", x.letters[first], size, shape[second]));
      std::vector<int64_t> perm;
      std::string letters;
      Shape rest;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (d == first || d == second) continue;
        perm.push_back(static_cast<int64_t>(d));
        letters += x.letters[d];
        rest.push_back(shape[d]);
      }
      const int64_t place = std::ssize(perm);
      perm.push_back(static_cast<int64_t>(first));
      perm.push_back(static_cast<int64_t>(second));
      rest.push_back(size * size);
      ir::Value* flat = reshaped(call, transposed(call, x.value, perm), rest);
      x = {sliced(call, flat, place, 0, size, size + 1), letters + x.letters[first]};
      first = 0;
    }
  }
  return x;
}

// Sizes of 1 stretch: the dimensions of such letters are dropped where another operand has more.
Labeled without_stretched(ImportCall& call, const Labeled& x, const std::map<char, int64_t>& sizes) {
  Labeled y{x.value, ""};
  Shape shape;
  for (size_t d = 0; d < x.letters.size(); ++d) {
    const int64_t size = x.value->type().shape[d], whole = sizes.at(x.letters[d]);
    if (size == 1 && whole != 1) continue;
    if (size != whole)
      call.unsupported(fmt::format("letter '{}' with sizes {} and {}", x.letters[d], size, whole));
    y.letters += x.letters[d];
    shape.push_back(size);
  }
  y.value = reshaped(call, x.value, shape);
  return y;
}

Labeled permuted(ImportCall& call, const Labeled& x, const std::string& letters) {
  std::vector<int64_t> perm;
  for (const char letter : letters) perm.push_back(static_cast<int64_t>(x.letters.find(letter)));
  return {transposed(call, x.value, perm), letters};
}

// Sums out the letters of x that nobody else needs.
Labeled summed(ImportCall& call, const Labeled& x, const std::string& needed) {
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

// a [batch, rows, inner] times b [batch, inner, columns]. Products of matrices are of reals alone; integers are
// multiplied element by element and summed.
ir::Value* product(ImportCall& call, ir::Value* a, ir::Value* b) {
  if (is_floating_point(a->type().dtype)) return call.op("matmul", {a, b});
  const Shape &left = a->type().shape, &right = b->type().shape;
  ir::Value* each = call.op("mul", {reshaped(call, a, {left[0], left[1], left[2], 1}),
                                    reshaped(call, b, {right[0], 1, right[1], right[2]})});
  return call.op("reduce_sum", {each}, {{"dims", Shape{2}}, {"keep_dims", false}});
}

Labeled contracted(ImportCall& call, const Labeled& left, const Labeled& right, const std::string& needed) {
  const Labeled a = summed(call, left, right.letters + needed),
                b = summed(call, right, left.letters + needed);
  std::string batch, rows, columns, inner;
  for (const char letter : a.letters) {
    const bool stays = needed.find(letter) != std::string::npos;
    (!b.has(letter) ? rows : stays ? batch : inner) += letter;
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
  ir::Value* y = product(call, reshaped(call, permuted(call, a, batch + rows + inner).value, a_shape),
                         reshaped(call, permuted(call, b, batch + inner + columns).value, b_shape));
  Shape shape;
  for (const char letter : batch + rows + columns)
    shape.push_back(a.has(letter) ? a.size(letter) : b.size(letter));
  return {reshaped(call, y, shape), batch + rows + columns};
}

// The result of an equation, with its letters in their order.
ir::Value* einsum(ImportCall& call, const std::string& text, const std::vector<ir::Value*>& tensors) {
  const Equation equation = parse(call, text, tensors);
  std::vector<Labeled> operands;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back(without_repeats(call, {tensors[i], equation.inputs[i]}));
    for (const char letter : operands.back().letters) {
      int64_t& size = sizes.try_emplace(letter, 1).first->second;
      if (size == 1) size = operands.back().size(letter);
    }
  }
  for (Labeled& operand : operands) operand = without_stretched(call, operand, sizes);
  for (const char letter : equation.output)
    if (!sizes.contains(letter))
      call.unsupported(fmt::format("letter '{}' of the result, which no operand has", letter));
  Labeled result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = equation.output;
    for (size_t j = i + 1; j < operands.size(); ++j) needed += operands[j].letters;
    result = contracted(call, result, operands[i], needed);
  }
  return permuted(call, summed(call, result, equation.output), equation.output).value;
}

void import_einsum(AtenImportCall& call) {
  std::vector<ir::Value*> tensors = call.tensors("tensors");
  const ir::Type type = call.result_type(0);
  for (ir::Value*& tensor : tensors) tensor = call.cast(tensor, type.dtype);
  call.set_result(0, reshaped(call, einsum(call, call.text("equation"), tensors), type.shape));
}

void import_node_einsum(NodeImportCall& call) {
  std::vector<ir::Value*> tensors;
  for (int i = 0; i < call.operand_count(); ++i) tensors.push_back(call.operand(i));
  if (tensors.empty()) call.operand(0);  // says that it is missing
  ir::Value* y = einsum(call, call.text("equation"), tensors);
  call.set_result(0, y == tensors[0] ? call.op("nop", {y}) : y);
}

struct EinsumRegistrations {
  EinsumRegistrations() {
    register_aten_importer("einsum", import_einsum);
    register_onnx_importer("Einsum", {12}, import_node_einsum);
    register_tensorflow_importer("Einsum", import_node_einsum);
  }
};
const EinsumRegistrations einsum_registrations;

}  // namespace
}  // namespace ipu::ops
