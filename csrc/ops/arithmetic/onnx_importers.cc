// Importers of ONNX's arithmetic that is not an op of the same name: powers of another type, bounds, sums and
// extremes of many operands, and the broadcasting of version 6.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// PopART multiplies f16 by one f32 number: in f32, rounded once.
ir::Value* product(NodeImportCall& call, ir::Value* a, ir::Value* b) {
  const ir::Type &left = a->type(), &right = b->type();
  const auto is_pair = [](const ir::Type& half, const ir::Type& number) {
    return half.dtype == DType::kF16 && number.dtype == DType::kF32 && number.elements() == 1;
  };
  if (!call.is_popart() || !(is_pair(left, right) || is_pair(right, left))) return call.op("mul", {a, b});
  return call.cast(call.op("mul", {call.cast(a, DType::kF32), call.cast(b, DType::kF32)}), DType::kF16);
}

// Version 6: operand 1 has the shape of some dimensions of operand 0 in a row, from `axis` on or the last ones,
// and only `broadcast` = 1 lets shapes differ.
void import_binary_of_6(NodeImportCall& call, const char* kind) {
  ir::Value *a = call.operand(0), *b = call.operand(1);
  const bool broadcasts = call.integer("broadcast", 0) == 1;
  const Shape &to = a->type().shape, from = b->type().shape;
  const int64_t last = std::ssize(to) - std::ssize(from);
  const int64_t axis = call.integer("axis", last);
  if (!broadcasts && to != from)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} and {} without broadcast=1.",
                                                      call.described(), to_string(to), to_string(from)));
  if (axis < 0 || axis > last)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} and {} from dimension {} on.", call.described(),
                            to_string(to), to_string(from), axis));
  Shape aligned(from);
  aligned.resize(to.size() - static_cast<size_t>(axis), 1);
  b = reshaped(call, b, aligned);
  call.set_result(0, std::string_view(kind) == "mul" ? product(call, a, b) : call.op(kind, {a, b}));
}

void import_mul(NodeImportCall& call) { call.set_result(0, product(call, call.operand(0), call.operand(1))); }

// The exponent may have a type of its own from version 12 on; the result has that of the base.
void import_power(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *exponent = call.operand(1);
  const DType dtype = x->type().dtype;
  if (exponent->type().dtype == dtype || call.version() < 12)
    return call.set_result(0, call.op("pow", {x, exponent}));
  if (is_floating_point(dtype)) return call.set_result(0, call.op("pow", {x, call.cast(exponent, dtype)}));
  const DType wide = DType::kF32;
  call.set_result(0, call.cast(call.op("pow", {call.cast(x, wide), call.cast(exponent, wide)}), dtype));
}

// ONNX rounds halves to even numbers, PopART away from zero. Adding a half and cutting would round
// 0.49999997 to 1.
void import_round(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  if (!call.is_popart()) return call.set_result(0, call.op("round", {x}));
  const auto number = [&](double value) { return call.builder().scalar(x->type().dtype, value); };
  ir::Value* size = call.op("abs", {x});
  ir::Value* whole = call.op("floor", {size});
  ir::Value* up = call.op("greater_equal", {call.op("sub", {size, whole}), number(0.5)});
  ir::Value* rounded = call.op("where", {up, call.op("add", {whole, number(1.0)}), whole});
  call.set_result(0, flat(call, x, call.op("mul", {rounded, call.op("sign", {x})})));
}

ir::Value* folded(NodeImportCall& call, const char* kind) {
  ir::Value* y = call.operand(0);
  for (int i = 1; call.is_popart() && call.version() < 8 && i < call.operand_count(); ++i)
    if (call.operand(i)->type() != y->type())
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of {} and {}; nothing is broadcast before opset 8.",
                              call.described(), to_string(y->type()), to_string(call.operand(i)->type())));
  for (int i = 1; i < call.operand_count(); ++i) y = call.op(kind, {y, call.operand(i)});
  return y;
}

void import_mean(NodeImportCall& call) {
  ir::Value* sum = folded(call, "add");
  const double count = call.operand_count();
  call.set_result(0, call.op("div", {sum, call.builder().scalar(sum->type().dtype, count)}));
}

// Bounds are attributes before version 11, operands from then on. Bounds that are computed select, as torch's
// tensors as bounds do.
void import_clip(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Attributes bounds;
  if (call.version() < 11) {
    for (const char* name : {"min", "max"})
      if (call.has(name)) bounds.set(name, call.real(name));
    return call.set_result(0, call.op("clamp", {x}, std::move(bounds)));
  }
  for (const int i : {1, 2}) {
    if (!call.has_operand(i)) continue;
    if (call.is_popart() || call.constant(i) != nullptr) {  // PopART takes only bounds that the model states
      bounds.set(i == 1 ? "min" : "max", call.operand_real(i, i == 1 ? "min" : "max"));
      continue;
    }
    if (!bounds.empty()) x = call.op("clamp", {x}, std::exchange(bounds, {}));
    ir::Value* bound = call.operand(i);
    x = call.op("where", {call.op(i == 1 ? "less" : "greater", {x, bound}), bound, x});
  }
  call.set_result(0, bounds.empty() ? x : call.op("clamp", {x}, std::move(bounds)));
}

void import_mod(NodeImportCall& call) {
  const bool of_dividend = call.integer("fmod", 0) == 1;
  ir::Value* divisor = call.operand(1);
  if (call.is_popart()) divisor = refusing_gradient(call, divisor);
  call.set_result(0, call.op(of_dividend ? "fmod" : "remainder", {call.operand(0), divisor}));
}

struct ArithmeticOnnxImporters {
  ArithmeticOnnxImporters() {
    register_onnx_importer("Round", {11}, import_round);
    for (const auto& [type, kind] : {std::pair{"Add", "add"},
                                     {"Sub", "sub"},
                                     {"Mul", "mul"},
                                     {"Div", "div"},
                                     {"Pow", "pow"},
                                     {"Equal", "equal"},
                                     {"Greater", "greater"},
                                     {"Less", "less"},
                                     {"And", "logical_and"},
                                     {"Or", "logical_or"},
                                     {"Xor", "logical_xor"}})
      register_onnx_importer(type, {6, 6}, [kind = kind](NodeImportCall& c) { import_binary_of_6(c, kind); });
    for (const auto& [type, kind] : {std::pair{"Sum", "add"}, {"Max", "maximum"}, {"Min", "minimum"}})
      register_onnx_importer(type, {6},
                             [kind = kind](NodeImportCall& c) { c.set_result(0, folded(c, kind)); });
    register_onnx_importer("Mean", {6}, import_mean);
    register_onnx_importer("Mul", {7}, import_mul);
    register_onnx_importer("Pow", {7}, import_power);
    register_onnx_importer("Clip", {6}, import_clip);
    register_onnx_importer("Mod", {10}, import_mod);
  }
};
const ArithmeticOnnxImporters arithmetic_onnx_importers;

const PopartOperators arithmetic_popart = {{
    {"Clip", "6 11", "input:F !min:F !max:F", "output:F", "yes", "max min"},
    {"Round", "11", "X:F", "Y:F", "zero"},
    {"Add Sub Mul Div", "6 7", "A:A B:A", "C:A", "yes", "axis broadcast"},
    {"Pow", "1 7", "A:FLOAT,FLOAT16,INT32 B:FLOAT,FLOAT16,INT32", "C:FLOAT,FLOAT16,INT32", "yes",
     "axis broadcast"},
    {"Mod", "10", "A:A B:A", "C:A", "yes", "fmod", "rewritten"},
    {"Max Min Mean Sum", "6 8", "data_0:F", "out:F"},
}};

}  // namespace
}  // namespace ipu::ops
