// What the fusion pass makes of a group of elementwise ops: VM code as an op. Its meaning for the interpreter
// is the code read back as expression trees, so a fused graph can be compared with the graph it came from.
#include <fmt/core.h>

#include "ops/definition/family.h"
#include "ops/definition/work.h"
#include "ops/expression/function_facts.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

using kernels::Instruction;
using kernels::OpCode;
using kernels::PointwiseProgram;

DType register_dtype(DType dtype) {
  if (dtype == DType::kBool || dtype == DType::kU32) return dtype;
  return is_floating_point(dtype) ? DType::kF32 : DType::kI32;
}

// Trees of the program's outputs. An index along dimension d of the result is input `inputs.size() + d`.
std::vector<Expr> trees_of(const PointwiseProgram& program, std::span<const Expr> inputs) {
  std::vector<Expr> registers;
  auto at = [&](int32_t i) { return registers.at(static_cast<size_t>(i)); };
  for (const Instruction& i : program.code) {
    Expr value;
    switch (i.code) {
      case OpCode::kLoad: {
        if (i.immediate < 0 || i.immediate >= static_cast<int32_t>(inputs.size()))
          throw Error(ErrorCode::kInvalidProgram,
                      fmt::format("invalid code: fused_pointwise loads operand {} of {}.", i.immediate,
                                  inputs.size()));
        const DType dtype = register_dtype(inputs[static_cast<size_t>(i.immediate)].dtype());
        value = Expr::input(i.immediate, dtype);
        break;
      }
      case OpCode::kConstF:
        value = Expr::constant(DType::kF32, i.value);
        break;
      case OpCode::kConstI:
        value = Expr::constant(DType::kI32, i.value);
        break;
      case OpCode::kIota:
        value = Expr::input(static_cast<int>(inputs.size()) + i.immediate, DType::kI32);
        break;
      case OpCode::kFmaF:
        value = at(i.a) * at(i.b) + at(i.c);
        break;
      case OpCode::kSelect:
        value = Expr::make(Func::kSelect, at(i.b).dtype(), {at(i.a), at(i.b), at(i.c)});
        break;
      default: {
        const std::optional<Meaning> meaning = meaning_of(i.code);
        IPU_CHECK(meaning.has_value(),
                  fmt::format("VM code {} has no expression", kernels::to_string(i.code)));
        std::vector<Expr> arguments{at(i.a)};
        if (i.b >= 0) arguments.push_back(at(i.b));
        const DType dtype = meaning->dtype.value_or(at(i.a).dtype());
        value = Expr::make(meaning->func, dtype, std::move(arguments));
        if (register_dtype(dtype) != dtype) value = ops::cast(value, register_dtype(dtype));
      }
    }
    registers.push_back(std::move(value));
  }
  std::vector<Expr> roots;
  for (int32_t output : program.outputs) roots.push_back(at(output));
  return roots;
}

std::vector<ir::Type> infer(const InferContext& c) {
  ir::Type type;
  bool has_layout = false;
  for (const ir::Type* operand : c.operands) type.shape = broadcast_shapes(type.shape, operand->shape);
  for (const ir::Type* operand : c.operands)
    if (!has_layout && operand->shape == type.shape) {
      type.layout = operand->layout;
      has_layout = true;
    }
  std::vector<ir::Type> types;
  for (const std::string& name : c.attributes.texts("dtypes")) {
    const std::optional<DType> dtype = dtype_from_string(name);
    if (!dtype)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("unknown dtype: '{}' in dtypes of fused_pointwise.", name));
    type.dtype = *dtype;
    types.push_back(type);
  }
  if (types.size() != c.attributes.integers("outputs").size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("attribute mismatch: fused_pointwise has {} outputs and {} dtypes.",
                            c.attributes.integers("outputs").size(), types.size()));
  return types;
}

void reference(ReferenceCall& call) {
  std::vector<Expr> inputs;
  std::vector<Strides> strides;
  const Shape& shape = call.result().type.shape;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    inputs.push_back(Expr::input(static_cast<int>(i), call.operands[i]->type.dtype));
    strides.push_back(broadcast_strides(call.operands[i]->type.shape, shape));
  }
  Evaluator evaluate(trees_of(PointwiseProgram::from_attributes(call.attributes), inputs));
  const Strides own = contiguous_strides(shape);
  std::vector<double> in(inputs.size() + shape.size()), out(call.results.size());
  for (int64_t element = 0; element < call.result().size(); ++element) {
    for (size_t d = 0; d < shape.size(); ++d)
      in[inputs.size() + d] = static_cast<double>(element / own[d] % shape[d]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      int64_t offset = 0;
      for (size_t d = 0; d < shape.size(); ++d)
        offset += strides[i][d] * static_cast<int64_t>(in[inputs.size() + d]);
      in[i] = call.operands[i]->values[static_cast<size_t>(offset)];
    }
    evaluate(in, out);
    for (size_t i = 0; i < out.size(); ++i) call.results[i]->values[static_cast<size_t>(element)] = out[i];
  }
}

std::vector<target::Work> fused_work(const ir::Op& op) {
  std::vector<Expr> inputs;
  for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(Expr::input(i, op.operand(i)->type().dtype));
  return {pass_of(op, functions_of(trees_of(PointwiseProgram::from_attributes(op.attributes), inputs)))};
}

// y = relu(a + b), z = a + b.
Attributes sample_program() {
  const Expr sum = Expr::input(0, DType::kF32) + Expr::input(1, DType::kF32);
  const std::vector<Expr> roots{binary(Func::kMax, sum, Expr::constant(DType::kF32, 0.0)), sum};
  Attributes attributes = compile(roots, std::vector<DType>{DType::kF32, DType::kF32}).to_attributes();
  attributes.set("dtypes", std::vector<std::string>{"f32", "f32"});
  return attributes;
}

const OpRegistration fused_pointwise =
    define_op("fused_pointwise", "fusion")
        .doc(
            "Several elementwise ops as one: `code` and `values` are instructions of the pointwise VM, "
            "`outputs` the "
            "registers of the results, `dtypes` their element types. Made by the pass fuse-pointwise.")
        .variadic("x", kNumber | kBoolean)
        .attribute("code")
        .attribute("values")
        .attribute("outputs")
        .attribute("dtypes")
        .result("y...")
        .traits(kElementwise | kAnyLayout | kMayReuseFirstOperand)
        .infer(infer)
        .gradient_refused("fusion comes after differentiation")
        .reference(reference)
        .kernel("pointwise")
        .work(fused_work)
        .samples({{{f32({2, 3}), f32({3})}, sample_program(), -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
