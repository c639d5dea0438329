// The updates of variables that PopXL programs write (ops.var_updates): kinds of the authored form that change
// their first operand and stand for ordinary ops in place. One table; a row is an equation of t, x and f.
#include <functional>

#include "ir/structure.h"
#include "ops/definition/family.h"
#include "ops/definition/rule_support.h"
#include "ops/update/overwritten.h"

namespace ipu::ops {
namespace {

using ir::Value;

// What a row may use. Factors come as an attribute, or as one element at run time that overrides it.
struct Update {
  ir::Builder& builder;
  const ir::Op& op;

  Value* t() const { return op.operand(0); }
  Value* x() const { return op.operand(1); }
  Value* number(double value) const { return builder.scalar(t()->type().dtype, value); }
  double attribute(std::string_view name) const {
    return with_defaults(*definition(op), op.attributes).real(name);
  }
  Value* factor(int operand, std::string_view name) const {
    if (operand >= op.operand_count() || op.operand(operand) == nullptr) return number(attribute(name));
    Value* given = op.operand(operand);
    const DType dtype = t()->type().dtype;
    return given->type().dtype == dtype ? given : build(builder, "cast", {given}, {{"dtype", dtype}});
  }
  Value* make(std::string_view kind, Value* a, Value* b) const { return build(builder, kind, {a, b}); }
  Value* weighted(Value* f, Value* a, Value* g, Value* b) const {
    return make("add", make("mul", a, f), make("mul", b, g));
  }
  // t + value, in the memory of t.
  Value* added(Value* value) const {
    return build(builder, "add", {t(), value}, {{std::string(ir::kInPlace), int64_t{0}}});
  }
  // The memory of t takes a value; x and f may lie in it as well, so they are read before.
  Value* replaced(Value* value) const { return overwritten(builder, t(), value); }
};

enum Operands : uint8_t { kNone, kX, kF, kXAndF };

OpDefBuilder update_op(const char* name, Operands operands, double factor, const char* doc,
                       std::function<Value*(const Update&)> equation) {
  OpDefBuilder builder(name, "update");
  builder.doc(doc).operand("t", kAnyFloat);
  const bool has_x = operands == kX || operands == kXAndF, has_f = operands == kF || operands == kXAndF;
  if (has_x) builder.operand("x", kAnyFloat);
  if (has_f) builder.optional_operand("f", kAnyFloat).attribute("factor", factor);
  builder.result("y")
      .infer([has_x, has_f](const InferContext& c) {
        const int f = has_x ? 2 : 1;
        if (has_x) require_same_dtype(c, 0, 1);
        if (has_x && broadcast_shapes(c.operand(0).shape, c.operand(1).shape) != c.operand(0).shape)
          shape_error("x must broadcast to t");
        if (has_f && c.has(f)) require_rank(c, f, 0, "f");
        return std::vector<ir::Type>{c.operand(0)};
      })
      .modifies(0)
      .expand([equation = std::move(equation)](ir::Builder& into, const ir::Op& op) {
        return std::vector<Value*>{equation(Update{into, op})};
      })
      .gradient_refused("it overwrites its operand; differentiate what comes before the update");
  Sample sample{{f32({2, 3})}, {}, -1, 1, {}};
  if (has_x) sample.operands.emplace_back(f32({2, 3}));
  builder.samples({sample});
  if (has_f) {
    sample.operands.emplace_back(f32({}));
    builder.samples({sample});
  }
  return builder;
}

const OpRegistration accumulate =
    update_op("accumulate", kXAndF, 1.0, "t becomes t + f * x.",
              [](const Update& u) { return u.added(u.make("mul", u.x(), u.factor(2, "factor"))); });
const OpRegistration accumulate_square =
    update_op("accumulate_square", kXAndF, 1.0, "t becomes t + f * x * x.", [](const Update& u) {
      return u.added(u.make("mul", u.make("mul", u.x(), u.x()), u.factor(2, "factor")));
    });
const OpRegistration accumulate_mean =
    update_op("accumulate_mean", kXAndF, 0.0,
              "t becomes f / (f + 1) * t + 1 / (f + 1) * x: the mean of f + 1 values, f of them in t.",
              [](const Update& u) {
                Value* f = u.factor(2, "factor");
                Value* count = u.make("add", f, u.number(1.0));
                return u.replaced(
                    u.weighted(u.make("div", f, count), u.t(), u.make("div", u.number(1.0), count), u.x()));
              });
const OpRegistration accumulate_moving_average = update_op(
    "accumulate_moving_average", kXAndF, 0.5, "t becomes f * t + (1 - f) * x.", [](const Update& u) {
      Value* f = u.factor(2, "factor");
      return u.replaced(u.weighted(f, u.t(), u.make("sub", u.number(1.0), f), u.x()));
    });
const OpRegistration accumulate_moving_average_square =
    update_op("accumulate_moving_average_square", kXAndF, 0.5, "t becomes f * t + (1 - f) * x * x.",
              [](const Update& u) {
                Value* f = u.factor(2, "factor");
                Value* square = u.make("mul", u.x(), u.x());
                return u.replaced(u.weighted(f, u.t(), u.make("sub", u.number(1.0), f), square));
              });
const OpRegistration accumulator_scale =
    update_op("accumulator_scale", kF, 1.0, "t becomes f * t; the constant 0 clears it, NaN as well.",
              [](const Update& u) {
                if (u.op.operand_count() < 2 && u.attribute("factor") == 0.0)
                  return u.replaced(u.builder.splat(u.t()->type(), 0.0));
                return u.replaced(u.make("mul", u.t(), u.factor(1, "factor")));
              });
const OpRegistration accumulator_zero =
    update_op("accumulator_zero", kNone, 0.0, "t becomes 0.",
              [](const Update& u) { return u.replaced(u.builder.splat(u.t()->type(), 0.0)); });
const OpRegistration copy_var_update =
    update_op("copy_var_update", kX, 0.0, "t becomes x.", [](const Update& u) {
      if (u.x()->type().shape == u.t()->type().shape) return u.replaced(u.x());
      return u.replaced(build(u.builder, "expand", {u.x()}, {{"shape", u.t()->type().shape}}));
    });
// Not of a variable alone: PopXL's scaled_add_.
const OpRegistration scaled_add =
    update_op("scaled_add", kX, 0.0, "t becomes a * t + b * x.",
              [](const Update& u) {
                if (u.op.operand_count() < 3 && u.attribute("a") == 1.0)
                  return u.added(u.make("mul", u.x(), u.factor(3, "b")));
                return u.replaced(u.weighted(u.factor(2, "a"), u.t(), u.factor(3, "b"), u.x()));
              })
        .optional_operand("scale_t", kAnyFloat)
        .optional_operand("scale_x", kAnyFloat)
        .attribute("a", 1.0)
        .attribute("b", 1.0)
        .samples({{{f32({4}), f32({4})}, {{"a", 0.5}, {"b", 0.25}}, -1, 1, {}},
                  {{f32({4}), f32({4}), f32({}), f32({})}, {}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
