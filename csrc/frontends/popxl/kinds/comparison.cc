// Comparisons, logic of booleans, and the choice between two tensors.
#include "frontends/popxl/op_kind.h"

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

}  // namespace
}  // namespace ipu::popxl
