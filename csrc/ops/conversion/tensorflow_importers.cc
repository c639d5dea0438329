// Importers of TensorFlow's constants, conversions, and what follows from types and shapes alone.
#include <fmt/core.h>

#include <cmath>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

void import_cast(NodeImportCall& call) {
  const DType dtype = tensorflow_dtype(call, "DstT");
  require_default(call, "Truncate", false);
  ir::Value* x = call.operand(0);
  call.set_result(0, x->type().dtype == dtype ? call.op("nop", {x}) : call.cast(x, dtype));
}

// A tensor that the model states stays stated: it may be a shape.
void pass_on(NodeImportCall& call, int i) {
  if (ConstantPtr constant = call.constant(i); constant != nullptr && !call.is_variable(i))
    return call.set_constant(i, std::move(constant));
  call.set_result(i, call.op("nop", {call.operand(i)}));
}

void import_identity(NodeImportCall& call) {
  for (const char* name : {"message", "shape"}) call.ignore(name);  // what other types say of the value
  pass_on(call, 0);
}

void import_splat(NodeImportCall& call, double value) {
  call.set_result(0, call.builder().splat(call.operand(0)->type(), value));
}

void import_fill(NodeImportCall& call) {
  call.ignore("index_type");
  const Shape shape = operand_sizes(call, 0, "dims");
  call.set_result(0, expanded(call, call.operand(1), shape));
}

// A tensor that is filled afterwards; zeros, whether the node asks for them or not.
void import_empty(NodeImportCall& call) {
  call.ignore("init");
  call.set_result(
      0, call.builder().splat({tensorflow_dtype(call, "dtype"), operand_sizes(call, 0, "shape")}, 0.0));
}

// What the other branch of a condition keeps for its gradient: nobody reads it.
void import_fake_param(NodeImportCall& call) {
  call.set_result(0, call.builder().splat({tensorflow_dtype(call, "dtype"), call.integers("shape")}, 0.0));
}

// --- shapes, in the type that the node asks for

ConstantPtr sizes_constant(NodeImportCall& call, const std::vector<int64_t>& sizes, Shape shape) {
  if (call.text("out_type", "int32") == "int64")
    return ir::make_constant(DType::kI64, std::move(shape), sizes.data());
  return constant_of(DType::kI32, std::move(shape), {sizes.begin(), sizes.end()});
}

void import_shape(NodeImportCall& call) {
  for (int i = 0; i < call.result_count(); ++i) {
    const Shape& shape = call.operand(i)->type().shape;
    call.set_constant(i, sizes_constant(call, shape, {static_cast<int64_t>(shape.size())}));
  }
}

void import_size(NodeImportCall& call) {
  call.set_constant(0, sizes_constant(call, {call.operand(0)->type().elements()}, {}));
}

void import_rank(NodeImportCall& call) {
  call.set_constant(0, sizes_constant(call, {std::ssize(call.operand(0)->type().shape)}, {}));
}

// --- sequences

ir::Value* sequence(NodeImportCall& call, int64_t count, double start, double step) {
  return call.op(
      "iota", {},
      {{"shape", Shape{count}}, {"dtype", call.operand(0)->type().dtype}, {"start", start}, {"step", step}});
}

void import_range(NodeImportCall& call) {
  const double start = call.operand_real(0, "start"), limit = call.operand_real(1, "limit"),
               delta = call.operand_real(2, "delta");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= INT32_MAX))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("tensor too large: {} from {} to {} in steps of {}.",
                                                      call.described(), start, limit, delta));
  call.set_result(0, sequence(call, static_cast<int64_t>(count), start, delta));
}

void import_lin_space(NodeImportCall& call) {
  const double start = call.operand_real(0, "start"), stop = call.operand_real(1, "stop");
  const int64_t count = operand_integer(call, 2, "num");
  if (count < 1) node_dim(call, count, 0);  // says that it is out of range
  const double step = count == 1 ? 0.0 : (stop - start) / static_cast<double>(count - 1);
  call.set_result(0, sequence(call, count, start, step));
}

struct ConversionTensorflowImporters {
  ConversionTensorflowImporters() {
    register_tensorflow_importer("Cast", import_cast);
    for (const char* type : {"Identity", "StopGradient", "PreventGradient", "Snapshot", "DeepCopy",
                             "EnsureShape", "PlaceholderWithDefault"})
      register_tensorflow_importer(type, import_identity);
    register_tensorflow_importer("IdentityN", [](NodeImportCall& call) {
      for (int i = 0; i < call.result_count(); ++i) pass_on(call, i);
    });
    register_tensorflow_importer("ZerosLike", [](NodeImportCall& call) { import_splat(call, 0.0); });
    register_tensorflow_importer("OnesLike", [](NodeImportCall& call) { import_splat(call, 1.0); });
    register_tensorflow_importer("Fill", import_fill);
    register_tensorflow_importer("Empty", import_empty);
    register_tensorflow_importer("FakeParam", import_fake_param);
    for (const char* type : {"Shape", "ShapeN", "VariableShape"})
      register_tensorflow_importer(type, import_shape);
    register_tensorflow_importer("Size", import_size);
    register_tensorflow_importer("Rank", import_rank);
    register_tensorflow_importer("Range", import_range);
    register_tensorflow_importer("LinSpace", import_lin_space);
  }
};
const ConversionTensorflowImporters conversion_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
