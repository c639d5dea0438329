// Comparisons, logic of booleans, and the choice between two tensors.
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

const KindRegistration equal_kind =
    define_kind("Equal").id("ai.onnx", 7).refuses_gradient().predicate("equal", 2);
const KindRegistration greater_kind =
    define_kind("Greater").id("ai.onnx", 9).refuses_gradient().predicate("greater", 2);
const KindRegistration and_kind =
    define_kind("And").id("ai.onnx", 7).refuses_gradient().predicate("logical_and", 2);
const KindRegistration or_kind =
    define_kind("Or").id("ai.onnx", 7).refuses_gradient().predicate("logical_or", 2);
const KindRegistration not_kind = define_kind("Not").refuses_gradient().predicate("logical_not", 1);

const KindRegistration where_kind =
    define_kind("Where")
        .id("ai.onnx", 9)
        .elementwise(Elementwise::kNumbers, 3)
        .gradients({{1, "XGrad", {in(0)}}, {2, "YGrad", {in(0)}}})
        .lower([](LowerCall& c) {
          ir::Value* condition = c.cast(c.input(0), DType::kBool);  // of ops made by hand
          c.set_output(0, c.build("where", {condition, c.input(1), c.input(2)}));
        });

const FunctionRegistration comparison_functions = {{
    {"Equal", "equal(lhs, rhs) -> equal_out", "Where lhs = rhs, as bool.", "same = ops.equal(a, b)"},
    {"Greater", "greater(input, other) -> greater_out", "Where input > other, as bool.",
     "positive = ops.greater(x, popxl.constant(0.0))"},
    {"And", "logical_and(lhs:mask, rhs:mask) -> and_out",
     "lhs and rhs, as bool; tensors of another dtype are cast to bool first.",
     "both = ops.logical_and(a, b)  # or a & b"},
    {"Or", "logical_or(lhs:mask, rhs:mask) -> or_out",
     "lhs or rhs, as bool; tensors of another dtype are cast to bool first.",
     "either = ops.logical_or(a, b)  # or a | b"},
    {"Not", "logical_not(t:mask) -> not_out", "Not t, as bool; of another dtype it is cast to bool first.",
     "y = ops.logical_not(popxl.constant([True, False]))  # False, True"},
    {"Where", "where(condition:mask, lhs, rhs) -> where_out",
     R"(lhs where the condition holds, rhs elsewhere; all three broadcast. A condition of another dtype is cast to bool
first.)",
     "y = ops.where(mask, x, popxl.constant(0.0))"},
}};

}  // namespace
}  // namespace ipu::popxl
