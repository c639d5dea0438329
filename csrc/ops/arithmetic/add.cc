// Sums: add, sub, add_n, and the importers that scale one side by `alpha`. On bool, add is "or" (as torch).
#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

// self + alpha * other; rsub exchanges the two.
void import_scaled(AtenImportCall& c, std::string_view kind, std::string_view first,
                   std::string_view second) {
  const DType dtype = c.result_type(0).dtype;
  ir::Value* a = c.operand(first, dtype);
  ir::Value* b = c.operand(second, dtype);
  const double alpha = c.has("alpha") ? c.real("alpha") : 1.0;
  if (alpha != 1.0) {
    if (dtype == DType::kBool) c.unsupported("alpha of a sum of bools must be 1");
    b = c.op("mul", {b, c.builder().scalar(dtype, alpha)});
  }
  c.set_result(0, c.op(kind, {a, b}));
}

const OpRegistration add =
    define_op("add", "arithmetic")
        .doc("a + b; integers wrap; on bool: a or b.")
        .operand("a", kNumber | kBoolean)
        .operand("b", kNumber | kBoolean)
        .result("y")
        .traits(kCommutative)
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          return in[0].dtype() == DType::kBool ? binary(Func::kOr, in[0], in[1]) : in[0] + in[1];
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set_reduced(0, g.upstream());
          if (g.needs(1)) g.set_reduced(1, g.upstream());
        })
        .from_aten({"add.Tensor", "add.Scalar"},
                   [](AtenImportCall& c) { import_scaled(c, "add", "self", "other"); })
        .from_onnx("Add", {7})
        .from_tensorflow({"Add", "AddV2"})
        .samples(binary_samples())
        .samples(integer_samples())
        .samples({{{boolean({9}), boolean({9})}, {}, 0, 1, {}}});

const OpRegistration sub =
    define_op("sub", "arithmetic")
        .doc("a - b; integers wrap.")
        .operand("a", kNumber)
        .operand("b", kNumber)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[0] - in[1]; })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set_reduced(0, g.upstream());
          if (g.needs(1)) g.set_reduced(1, g.neg(g.upstream()));
        })
        .from_aten({"sub.Tensor", "sub.Scalar"},
                   [](AtenImportCall& c) { import_scaled(c, "sub", "self", "other"); })
        .from_onnx("Sub", {7})
        .from_aten({"rsub.Tensor", "rsub.Scalar"},
                   [](AtenImportCall& c) { import_scaled(c, "sub", "other", "self"); })
        .from_tensorflow({"Sub"})
        .samples(binary_samples())
        .samples(integer_samples());

// A sum of more terms than one kernel takes, as sums of some terms that begin with the sum so far: the same
// additions in the same order.
std::vector<ir::Value*> cut_sum(ir::Op& op) {
  constexpr int kTerms = 1000;
  ir::Builder builder(op.graph(), &op);
  builder.location = op.location;
  builder.origin = op.origin;
  builder.settings = op.settings;
  ir::Value* sum = op.operand(0);
  for (int i = 1; i < op.operand_count();) {
    std::vector<ir::Value*> terms{sum};
    for (; i < op.operand_count() && terms.size() < kTerms; ++i) terms.push_back(op.operand(i));
    sum = build_op(builder, "add_n", terms)->result();
  }
  return {sum};
}

const OpRegistration add_n = define_op("add_n", "arithmetic")
                                 .doc("Sum of one or more tensors of one type, added from left to right.")
                                 .variadic("x", kNumber)
                                 .result("y")
                                 .elementwise([](std::span<const Expr> in, const Attributes&) {
                                   Expr sum = in[0];
                                   for (size_t i = 1; i < in.size(); ++i) sum = sum + in[i];
                                   return sum;
                                 })
                                 .decompose(cut_sum)
                                 .gradient([](GradientBuilder& g) {
                                   for (int i = 0; g.has_operand(i); ++i)
                                     if (g.needs(i)) g.set_reduced(i, g.upstream());
                                 })
                                 .from_tensorflow({"AddN"})
                                 .samples({{{f32({2, 3})}, {}, -1, 1, {}},
                                           {{f32({2, 3}), f32({2, 3}), f32({2, 3})}, {}, -1, 1, {}},
                                           {{f16({5}), f16({5}), f16({5})}, {}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
