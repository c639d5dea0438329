// Elementwise ops that overwrite an operand: what their sisters compute, written to input 0 (or 1).
#include <fmt/core.h>

#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

auto overwrite(std::string kind, Attributes attributes = {}) {
  return [kind = std::move(kind), attributes = std::move(attributes)](LowerCall& c) {
    c.overwrite(0, c.build(kind, {c.input(0)}, attributes));
  };
}
KindBuilder in_place(std::string type) { return define_kind(std::move(type)).graphcore().modifies({0}); }

const KindRegistration exp_kind =
    in_place("ExpInplace").late_types(LateTypes::kFloats).lower(overwrite("exp"));
const KindRegistration relu_kind = in_place("ReluInplace").lower(overwrite("relu"));
const KindRegistration gelu_kind = in_place("GeluInplace")
                                       .late_types(LateTypes::kFloats)
                                       .lower(overwrite("gelu", {{"approximate", std::string("tanh")}}));
const KindRegistration geluerf_kind =
    in_place("GeluErfInplace").late_types(LateTypes::kFloats).lower(overwrite("gelu"));
const KindRegistration swish_kind =
    in_place("SwishInplace").late_types(LateTypes::kFloats).lower(overwrite("silu"));

// The other operand broadcasts to the one that is overwritten, never the other way round.
auto overwrite_side(std::string kind, int side) {
  return [kind = std::move(kind), side](LowerCall& c) {
    ir::Value* y = c.build(kind, {c.input(0), c.input(1)});
    if (y->type() != c.type(side))
      c.refuse(fmt::format("the result is {}, and input {}, which takes it, is {}", ir::to_string(y->type()),
                           side, ir::to_string(c.type(side))));
    c.overwrite(side, y);
  };
}
KindBuilder on_side(std::string type, int side) {
  return define_kind(std::move(type)).graphcore().modifies({side});
}

const KindRegistration add_lhs_kind = on_side("AddLhsInplace", 0).lower(overwrite_side("add", 0));
const KindRegistration add_rhs_kind = on_side("AddRhsInplace", 1).lower(overwrite_side("add", 1));
const KindRegistration mul_lhs_kind = on_side("MulLhsInplace", 0).lower(overwrite_side("mul", 0));
const KindRegistration mul_rhs_kind = on_side("MulRhsInplace", 1).lower(overwrite_side("mul", 1));
const KindRegistration pow_lhs_kind = on_side("PowLhsInplace", 0).lower(overwrite_side("pow", 0));

}  // namespace
}  // namespace ipu::popxl
