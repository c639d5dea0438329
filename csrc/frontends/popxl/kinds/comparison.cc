// Comparisons, logic of booleans, and the choice between two tensors.
#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

auto to_ir(std::string kind) {
  return [kind = std::move(kind)](LowerCall& c) { c.set_output(0, c.build(kind, {c.input(0), c.input(1)})); };
}

const KindRegistration equal_kind =
    define_kind("Equal").id("ai.onnx", 7).refuses_gradient().lower(to_ir("equal"));
const KindRegistration greater_kind =
    define_kind("Greater").id("ai.onnx", 9).refuses_gradient().lower(to_ir("greater"));
const KindRegistration and_kind =
    define_kind("And").id("ai.onnx", 7).refuses_gradient().lower(to_ir("logical_and"));
const KindRegistration or_kind =
    define_kind("Or").id("ai.onnx", 7).refuses_gradient().lower(to_ir("logical_or"));
const KindRegistration not_kind = define_kind("Not").refuses_gradient().lower(
    [](LowerCall& c) { c.set_output(0, c.build("logical_not", {c.input(0)})); });

const KindRegistration where_kind =
    define_kind("Where")
        .id("ai.onnx", 9)
        .gradients({{1, "XGrad", {in(0)}}, {2, "YGrad", {in(0)}}})
        .lower([](LowerCall& c) {
          ir::Value* condition = c.cast(c.input(0), DType::kBool);  // of ops made by hand
          c.set_output(0, c.build("where", {condition, c.input(1), c.input(2)}));
        });

}  // namespace
}  // namespace ipu::popxl
