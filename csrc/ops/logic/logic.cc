// Logical ops on bool, bitwise ops on bool and integers, and selection by a condition.
#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

ir::Value* truth(AtenImportCall& c, std::string_view name) { return c.operand(name, DType::kBool); }

OpDefBuilder logical(std::string name, std::string onnx, std::string doc, Func func) {
  OpDefBuilder builder(name, "logic");
  builder.doc(std::move(doc))
      .operand("a", kBoolean)
      .operand("b", kBoolean)
      .result("y")
      .traits(kCommutative)
      .elementwise([func](std::span<const Expr> in, const Attributes&) { return binary(func, in[0], in[1]); })
      .gradient_zero()
      .from_aten({name},
                 [name](AtenImportCall& c) {
                   c.set_result(0, c.op(name, {truth(c, "self"), truth(c, "other")}));
                 })
      .from_tensorflow({"Logical" + onnx})
      .from_onnx(std::move(onnx), {7})
      .samples({{{boolean({2, 9}), boolean({9})}, {}, 0, 1, {}}});
  return builder;
}

const OpRegistration logical_and = logical("logical_and", "And", "a and b.", Func::kAnd);
const OpRegistration logical_or = logical("logical_or", "Or", "a or b.", Func::kOr);
const OpRegistration logical_xor = logical("logical_xor", "Xor", "Either a or b, not both.", Func::kXor);

const OpRegistration logical_not =
    unary_op("logical_not", "logic", "Not x.", Func::kNot, kBoolean)
        .gradient_zero()
        .from_aten({"logical_not"},
                   [](AtenImportCall& c) { c.set_result(0, c.op("logical_not", {truth(c, "self")})); })
        .from_onnx("Not", {6})
        .from_tensorflow({"LogicalNot"})
        .samples({{{boolean({9})}, {}, 0, 1, {}}});

void refuse_bytes(AtenImportCall& c, DType dtype) {
  if (dtype == DType::kI8 || dtype == DType::kU8)
    c.unsupported("bitwise ops on int8 and uint8; cast to int32 first");
}

OpDefBuilder bitwise(std::string name, std::string doc, Func func) {
  OpDefBuilder builder(name, "logic");
  builder.doc(std::move(doc))
      .operand("a", kBitwise)
      .operand("b", kBitwise)
      .result("y")
      .traits(kCommutative)
      .elementwise([func](std::span<const Expr> in, const Attributes&) { return binary(func, in[0], in[1]); })
      .gradient_zero()
      .from_aten({name + ".Tensor", name + ".Scalar", name + ".Scalar_Tensor"},
                 [name](AtenImportCall& c) {
                   const DType dtype = c.result_type(0).dtype;
                   refuse_bytes(c, dtype);
                   c.set_result(0, c.op(name, {c.operand("self", dtype), c.operand("other", dtype)}));
                 })
      .samples({{{i32({2, 9}), i32({9})}, {}, -99, 99, {}}, {{boolean({9}), boolean({9})}, {}, 0, 1, {}}});
  return builder;
}

const OpRegistration bitwise_and = bitwise("bitwise_and", "Bits set in a and in b.", Func::kAnd);
const OpRegistration bitwise_or = bitwise("bitwise_or", "Bits set in a or in b.", Func::kOr);
const OpRegistration bitwise_xor = bitwise("bitwise_xor", "Bits set in one of a and b only.", Func::kXor);

const OpRegistration bitwise_not =
    unary_op("bitwise_not", "logic", "All bits of x turned over; on bool: not x.", Func::kNot, kBitwise)
        .gradient_zero()
        .from_aten({"bitwise_not"},
                   [](AtenImportCall& c) {
                     refuse_bytes(c, c.result_type(0).dtype);
                     c.set_result(0, c.op("bitwise_not", {c.tensor("self")}));
                   })
        .from_tensorflow({"Invert"})
        .samples({{{i32({9})}, {}, -99, 99, {}}, {{boolean({9})}, {}, 0, 1, {}}});

void import_where(AtenImportCall& c) {
  const DType dtype = c.result_type(0).dtype;
  c.set_result(0,
               c.op("where", {truth(c, "condition"), c.operand("self", dtype), c.operand("other", dtype)}));
}

void import_masked_fill(AtenImportCall& c) {
  const DType dtype = c.result_type(0).dtype;
  c.set_result(0, c.op("where", {truth(c, "mask"), c.operand("value", dtype), c.operand("self", dtype)}));
}

const OpRegistration where =
    define_op("where", "logic")
        .doc("a where the condition holds, b elsewhere; all three broadcast.")
        .operand("condition", kBoolean)
        .operand("a", kNumber | kBoolean)
        .operand("b", kNumber | kBoolean)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) { return select(in[0], in[1], in[2]); })
        .gradient([](GradientBuilder& g) {
          ir::Value *condition = g.operand(0), *dy = g.upstream();
          ir::Value* zero = g.scalar_like(dy, 0.0);
          if (g.needs(1)) g.set_reduced(1, g.where(condition, dy, zero));
          if (g.needs(2)) g.set_reduced(2, g.where(condition, zero, dy));
        })
        .from_aten({"where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"}, import_where)
        .from_onnx("Where", {9})
        .from_aten({"masked_fill.Scalar", "masked_fill.Tensor"}, import_masked_fill)
        .from_tensorflow({"SelectV2"})
        .samples({{{boolean({2, 3}), f32({2, 3}), f32({2, 3})}, {}, -1, 1, {{0, {0, 1}}}},
                  {{boolean({3}), f32({2, 3}), f32({})}, {}, -1, 1, {{0, {0, 1}}}},
                  {{boolean({4, 1}), i32({5}), i32({4, 5})}, {}, -9, 9, {{0, {0, 1}}}},
                  {{boolean({5}), f16({5}), f16({5})}, {}, -1, 1, {{0, {0, 1}}}}});

const PopartOperators logic_popart = {{
    {"Not", "1", "X:BOOL", "Y:BOOL", "error"},
    {"And Or", "1 7", "A:BOOL B:BOOL", "C:BOOL", "error", "axis broadcast"},
    {"Where", "9", "condition:BOOL X:NB Y:NB", "output:NB"},
}};

}  // namespace
}  // namespace ipu::ops
