// Importers of ONNX's constants, of what follows from shapes alone, and of conversions.
#include <fmt/core.h>

#include <cmath>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

void import_constant(NodeImportCall& call) {
  if (call.version() >= 12) {
    if (call.has("value_float"))
      return call.set_constant(0, constant_of(DType::kF32, {}, {call.real("value_float")}));
    if (call.has("value_floats")) {
      const std::vector<double> values = call.reals("value_floats");
      return call.set_constant(0, constant_of(DType::kF32, {static_cast<int64_t>(values.size())}, values));
    }
    if (call.has("value_int")) {
      const int64_t value = call.wide_integer("value_int");
      return call.set_constant(0, ir::make_constant(DType::kI64, {}, &value));
    }
    if (call.has("value_ints")) return call.set_constant(0, constant_of(call.wide_integers("value_ints")));
  }
  call.set_constant(0, call.tensor("value"));
}

// Too large to be a constant that others read (fold_creation.cc).
void import_constant_of_shape(NodeImportCall& call) {
  const Shape shape = operand_sizes(call, 0, "shape");
  ConstantPtr one = ir::make_scalar(DType::kF32, 0.0);
  if (call.has("value")) one = call.tensor("value");
  const std::vector<double> value = reals_of(*one);
  if (value.size() != 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: 'value' of {} has {} elements; it is one.", call.described(),
                            value.size()));
  if (one->dtype == DType::kI64) {
    if (value[0] != static_cast<int32_t>(value[0]))
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("value out of range: 'value' of {} is {}; the IPU has 32-bit "
                              "integers, from -2147483648 to 2147483647.",
                              call.described(), integers_of(*one)[0]));
    one = constant_of(DType::kI32, {}, value);
  }
  const DType dtype = one->dtype == DType::kF64 ? DType::kF32 : one->dtype;
  call.set_result(0, call.builder().splat({dtype, shape}, value[0]));
}

void import_shape(NodeImportCall& call) {
  const Shape& shape = call.operand(0)->type().shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t start = 0, end = rank;
  if (call.version() >= 15) {
    const auto place = [rank](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
    start = place(call.integer("start", 0));
    end = std::max(start, place(call.integer("end", rank)));
  }
  call.set_constant(0, constant_of(std::vector<int64_t>(shape.begin() + start, shape.begin() + end)));
}

void import_size(NodeImportCall& call) {
  const int64_t size = call.operand(0)->type().elements();
  call.set_constant(0, ir::make_constant(DType::kI64, {}, &size));
}

// A tensor that the model states stays stated: it may be a shape.
void import_identity(NodeImportCall& call) {
  if (ConstantPtr constant = call.constant(0); constant != nullptr && !call.is_variable(0))
    return call.set_constant(0, std::move(constant));
  call.set_result(0, call.op("nop", {call.operand(0)}));
}

void import_cast(NodeImportCall& call) {
  call.ignore("saturate");    // of 8-bit floats, which are not imported
  call.ignore("round_mode");  // likewise
  const DType dtype = onnx_dtype(call, call.integer("to"));
  ir::Value* x = call.operand(0);
  call.set_result(0, x->type().dtype == dtype ? call.op("nop", {x}) : call.cast(x, dtype));
}

void import_cast_like(NodeImportCall& call) {
  call.ignore("saturate");
  call.ignore("round_mode");
  ir::Value* x = call.operand(0);
  const DType dtype = call.operand(1)->type().dtype;
  call.set_result(0, x->type().dtype == dtype ? call.op("nop", {x}) : call.cast(x, dtype));
}

// Too many elements to be a constant (fold_creation.cc).
void import_range(NodeImportCall& call) {
  const double start = call.operand_real(0, "start"), limit = call.operand_real(1, "limit"),
               delta = call.operand_real(2, "delta");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= INT32_MAX))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("tensor too large: {} from {} to {} in steps of {}.",
                                                      call.described(), start, limit, delta));
  const DType dtype = call.operand(0)->type().dtype;
  call.set_result(0, call.op("iota", {},
                             {{"shape", Shape{static_cast<int64_t>(count)}},
                              {"dtype", dtype},
                              {"start", start},
                              {"step", delta}}));
}

void import_nonzero(NodeImportCall& call) {
  if (call.constant(0) == nullptr)
    call.unsupported("how many elements are not zero is known when the program runs");
  call.unsupported("the places of so many elements");
}

struct ConversionOnnxImporters {
  ConversionOnnxImporters() {
    register_onnx_importer("Constant", {6}, import_constant);
    register_onnx_importer("ConstantOfShape", {9}, import_constant_of_shape);
    register_onnx_importer("Shape", {6}, import_shape);
    register_onnx_importer("Size", {6}, import_size);
    register_onnx_importer("Identity", {6}, import_identity);
    register_onnx_importer("Cast", {6}, import_cast);
    register_onnx_importer("CastLike", {15}, import_cast_like);
    register_onnx_importer("Range", {11}, import_range);
    register_onnx_importer("NonZero", {9}, import_nonzero);
  }
};
const ConversionOnnxImporters conversion_onnx_importers;

const PopartOperators conversion_popart = {{
    {"Identity", "1", "X:NB", "Y:NB"},
    {"Shape", "1", "data:ANY", "shape:COUNT", "none", "", "folded"},
    {"Constant", "1 9 11", "", "output:NB", "none", "value", "folded"},
    {"ConstantOfShape", "9", "!input:COUNT", "output:NB", "none", "value", "folded"},
    {"Cast", "6 9", "input:CASTS", "output:CASTS", "yes", "to"},
}};

}  // namespace
}  // namespace ipu::ops
