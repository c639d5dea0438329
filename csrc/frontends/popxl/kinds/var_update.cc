// The updates of ops.var_updates: input 0 is overwritten. They are made without a look at the types, as programs update
// integers and halves with what has other types; arithmetic is that of the variable, but for the factors of halves, which are
// f32: a learning rate of 1e-8 is 0 in f16, and 1 - 0.999 is off by 2 %. A factor is an attribute or an input.
#include <fmt/core.h>

#include <cmath>

#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// The result is the memory of input 0, a shard as well.
void same_as_variable(InferCall& c) { c.set_output(0, c.input(0)); }

void require_equal_shapes(const LowerCall& c, int i) {
  if (c.shape(i) != c.shape(0))
    c.refuse(fmt::format("the update {} must have the shape of the variable, {}", ipu::to_string(c.shape(i)),
                         ipu::to_string(c.shape(0))));
}

enum class Rounding : uint8_t {
  kEachStep,  // to the type of the variable
  kOnce,      // of halves: the sum, which is formed in f32
};

// One update of a variable, in the type of the variable; integers with a factor that is no whole number are computed in
// f32 and cut off.
class Update {
 public:
  Update(LowerCall& call, int factor_input, bool divides, Rounding rounding)
      : c(call), dtype_(c.type(0).dtype) {
    const bool given = c.has(factor_input);
    const double factor = c.attributes().real("factor", 1.0);
    const bool is_float = is_floating_point(dtype_);
    if (is_float ? rounding == Rounding::kOnce
                 : divides ||
                       (given ? is_floating_point(c.type(factor_input).dtype) : factor != std::floor(factor)))
      dtype_ = DType::kF32;
    const DType of_factor = is_float ? DType::kF32 : dtype_;
    f_ = given ? c.cast(c.reshape(c.input(factor_input), {}), of_factor) : c.scalar(of_factor, factor);
  }
  ir::Value* t() { return c.cast(c.input(0), dtype_); }
  ir::Value* x() { return c.cast(c.input(1), dtype_); }
  ir::Value* f() { return c.cast(f_, dtype_); }
  ir::Value* one() { return c.scalar(dtype_, 1.0); }
  ir::Value* one_minus_f() { return c.cast(sub(c.scalar_like(f_, 1.0), f_), dtype_); }
  ir::Value* squared() { return mul(x(), x()); }
  // factor * X * X; of halves in an order in which a large X overflows only where the result does.
  ir::Value* squared_times(ir::Value* factor) {
    return dtype_ == DType::kF32 ? mul(factor, squared()) : mul(mul(factor, x()), x());
  }
  // factor * update, rounded once.
  ir::Value* scaled(ir::Value* update) { return c.cast(mul(f_, c.cast(update, f_->type().dtype)), dtype_); }
  ir::Value* add(ir::Value* a, ir::Value* b) { return c.build("add", {a, b}); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return c.build("sub", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return c.build("mul", {a, b}); }
  ir::Value* div(ir::Value* a, ir::Value* b) { return c.build("div", {a, b}); }
  void finish(ir::Value* value) { c.overwrite(0, c.cast(value, c.type(0).dtype)); }

 private:
  LowerCall& c;
  DType dtype_;  // of the arithmetic
  ir::Value* f_;
};

constexpr int kFactor = 2;

// Attributes accumulationType (names of popart's enum) and factor.
void accumulate(LowerCall& c) {
  require_equal_shapes(c, 1);
  const std::string type = c.attributes().text("accumulationType", "Add");
  const bool is_constant = !c.has(kFactor);
  const double factor = c.attributes().real("factor", 1.0);
  const bool is_one = is_constant && factor == 1.0;
  const bool adds = type == "Add" || type == "DampenedAdd";
  // The sum of two halves is rounded once anyway.
  const bool of_halves = (type == "Add" || is_one) && c.type(0).dtype == c.type(1).dtype;
  Update u(c, kFactor, type == "Mean",
           type == "Mean" || (adds && !of_halves) ? Rounding::kOnce : Rounding::kEachStep);
  if (type == "Add") return u.finish(u.add(u.t(), u.x()));
  if (type == "DampenedAdd" || type == "DampenedAddSquare") {
    if (is_constant && factor == 0.0) c.refuse("the factor 0 adds nothing; leave the update out");
    if (adds) return u.finish(u.add(u.t(), is_one ? u.x() : u.mul(u.f(), u.x())));
    return u.finish(u.add(u.t(), is_one ? u.squared() : u.squared_times(u.f())));
  }
  if (type == "DecayAdd") return u.finish(u.add(u.mul(u.f(), u.t()), u.x()));
  if (type == "DecayAddSquare") return u.finish(u.add(u.mul(u.f(), u.t()), u.squared()));
  if (type == "MovingAverage") return u.finish(u.add(u.mul(u.f(), u.t()), u.mul(u.one_minus_f(), u.x())));
  if (type == "MovingAverageSquare")
    return u.finish(u.add(u.mul(u.f(), u.t()), u.squared_times(u.one_minus_f())));
  if (type == "Infinity") return u.finish(c.build("maximum", {u.mul(u.f(), u.t()), c.build("abs", {u.x()})}));
  if (type != "Mean") c.refuse("accumulation type '" + type + "' is not known");
  // f values are in t already.
  ir::Value* count = u.add(u.f(), u.one());
  u.finish(u.add(u.mul(u.div(u.f(), count), u.t()), u.mul(u.div(u.one(), count), u.x())));
}

// Attribute factor; the constant 0 clears the variable, NaN as well.
void scale(LowerCall& c) {
  if (!c.has(kFactor) && c.attributes().real("factor", 1.0) == 0.0)
    return c.overwrite(0, c.builder().splat(c.type(0), 0.0));
  Update u(c, kFactor, false, Rounding::kEachStep);
  u.finish(u.mul(u.f(), u.t()));
}

// Attributes axis and factor. Inputs: variable, updater, factor, indices, and a variable that says how the first one
// lies. Slices of the updater are added at the indices along the axis; equal indices add up.
void sparse_accumulate(LowerCall& c) {
  constexpr int kIndices = 3;
  const int64_t axis = c.attributes().integer("axis", 0);
  const Shape shape = c.shape(0);
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank)
    c.refuse(fmt::format("axis {} is not in [{}, {}) of the variable {}", axis, -rank, rank,
                         ipu::to_string(shape)));
  const auto dim = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const int64_t count = c.type(kIndices).elements();
  Shape slices = shape;
  slices[dim] = count;
  if (c.type(1).elements() != element_count(slices))
    c.refuse(fmt::format("{} indices along axis {} of {} take an update of {} elements, not {}", count, axis,
                         ipu::to_string(shape), element_count(slices), ipu::to_string(c.shape(1))));
  const bool scales = c.has(kFactor) || c.attributes().real("factor", 1.0) != 1.0;
  Update u(c, kFactor, false, Rounding::kEachStep);
  ir::Value* x = scales ? u.scaled(c.reshape(c.input(1), slices)) : c.reshape(u.x(), slices);
  ir::Value* index = c.reshape(c.cast(c.input(kIndices), DType::kI32), {count});
  u.finish(c.build("index_add", {u.t(), index, x}, {{"dim", static_cast<int64_t>(dim)}}));
}

void copy(LowerCall& c) {
  require_equal_shapes(c, 1);
  c.overwrite(0, c.cast(c.input(1), c.type(0).dtype));
}

// Attributes lr and mwn (each absent: 1, no limit) or inputs 4 and 5; inputs 2 and 3 are squared norms, of the weight
// and of the update. The trust ratio is 1 where a norm or the limit is 0.
void adam_var_update(LowerCall& c) {
  require_equal_shapes(c, 1);
  constexpr DType kF32 = DType::kF32;
  const auto number = [&](int i) { return c.cast(c.reshape(c.input(i), {}), kF32); };
  const auto zero = [&](ir::Value* value) { return c.build("equal", {value, c.scalar(kF32, 0.0)}); };
  ir::Value *weight_norm = c.build("sqrt", {number(2)}), *norm = c.build("sqrt", {number(3)});
  if (c.has(5) || c.attributes().has("mwn")) {
    ir::Value* limit = c.has(5) ? number(5) : c.scalar(kF32, c.attributes().real("mwn"));
    weight_norm = c.build("minimum", {weight_norm, limit});
  }
  ir::Value* is_one = c.build("logical_or", {zero(weight_norm), zero(norm)});
  ir::Value* ratio = c.build("where", {is_one, c.scalar(kF32, 1.0), c.build("div", {weight_norm, norm})});
  ir::Value* rate = c.has(4) ? number(4) : c.scalar(kF32, c.attributes().real("lr", 1.0));
  ir::Value* step = c.build("mul", {c.cast(c.input(1), kF32), c.build("mul", {rate, ratio})});
  const DType dtype = c.type(0).dtype;
  c.overwrite(0, c.cast(c.build("sub", {c.cast(c.input(0), kF32), step}), dtype));
}

KindBuilder update(const char* type, void (*lower)(LowerCall&)) {
  return define_kind(type).graphcore().modifies({0}).optimizer().infer(same_as_variable).lower(lower);
}

const KindRegistration kinds[] = {
    update("Accumulate", accumulate),
    update("AccumulatorScale", scale),
    update("PopartSparseAccumulate", sparse_accumulate).class_name("SparseAccumulateOp"),
    update("CopyVarUpdate", copy),
    update("AdamVarUpdate", adam_var_update),
};

const CreatorRegistration var_update_creators = {{
    {"VarUpdateOp VarUpdateWithUpdaterOp", "opid settings"},
    {"CopyVarUpdateOp AccumulatorZeroOp", "settings"},
    {"AccumulateBaseOp", "opid accumulationType:name optimizer_value>factor:optimizer settings"},
    {"AccumulateOp", "accumulationType:name factor:optimizer settings"},
    {"SparseAccumulateOp", "accumulationType:name optimizer_value>factor:optimizer axis:int settings"},
    {"AccumulatorScaleOp", "factor:optimizer settings"},
    {"AdamVarUpdateOp", "learningRate>lr:optimizer maxWeightNorm>mwn:optimizer settings"},
}};
const FunctionRegistration var_update_functions = {{
    {"Accumulate",
     "var_updates.accumulate_(t, X, "
     "f:factor?>factor@2=None) -> accumulate__{t.name}; accumulationType='Add' if f is None else 'DampenedAdd'",
     R"(t becomes t + f * X; without f, t + X.

Args:
    t: any shape and dtype.
    X: of the shape of `t`.
    f: a number other than 0, or ().

Returns:
    The memory of `t`.

Raises:
    ValueError: the operands are of another graph, or on different IPUs or tile sets.)",
     "ops.var_updates.accumulate_(accumulator, gradient, 1 / 4)"},
    {"Accumulate",
     "var_updates.accumulate_square_(t, X, "
     "f:factor>factor@2=1.0) -> accumulate_square__{t.name}; accumulationType='DampenedAddSquare'",
     R"(t becomes t + f * X * X.

Args:
    t, X, f: as of `accumulate_`.

Returns:
    The memory of `t`.

Raises:
    ValueError: as of `accumulate_`.)",
     "ops.var_updates.accumulate_square_(second_moment, gradient)"},
    {"Accumulate",
     "var_updates.accumulate_moving_average_(t, X, "
     "f:factor>factor@2) -> accumulate_moving_avg__{t.name}; accumulationType='MovingAverage'",
     R"(t becomes f * t + (1 - f) * X.

Args:
    t, X: as of `accumulate_`.
    f: a number or ().

Returns:
    The memory of `t`.

Raises:
    ValueError: as of `accumulate_`.)",
     "ops.var_updates.accumulate_moving_average_(first_moment, gradient, 0.9)"},
    {"Accumulate",
     "var_updates.accumulate_moving_average_square_(t, X, "
     "f:factor>factor@2) -> accumulate_moving_avg_square__{t.name}; accumulationType='MovingAverageSquare'",
     R"(t becomes f * t + (1 - f) * X * X.

Args:
    t, X: as of `accumulate_`.
    f: a number or ().

Returns:
    The memory of `t`.

Raises:
    ValueError: as of `accumulate_`.)",
     "ops.var_updates.accumulate_moving_average_square_(second_moment, gradient, 0.999)"},
    {"AccumulatorScale",
     "var_updates.accumulator_scale_(t, f:factor>factor@2) -> accumulator_scale__{t.name}",
     R"(t becomes f * t; the number 0 makes it 0, also where it is NaN.

Args:
    t: any shape and dtype.
    f: a number or ().

Returns:
    The memory of `t`.

Raises:
    ValueError: as of `accumulate_`.)",
     "ops.var_updates.accumulator_scale_(momentum, 0.9)"},
    {"PopartSparseAccumulate",
     "var_updates.sparse_accumulate_(t, X, indices@3, axis:whole=0, f:factor?>factor@2=None, "
     "W?@4) -> sparse_accumulate__{t.name}; accumulationType='Add' if f is None else 'DampenedAdd'",
     R"(f * X is added to the slices of t along `axis` at `indices`; equal indices add up.

Args:
    t: any shape.
    X: slices of `t`, one for each index.
    indices: integers.
    axis: of `t`.
    f: a number or (); None: 1.
    W: a variable that `t` lies in memory like; no effect on values.

Returns:
    The memory of `t`.

Raises:
    ValueError: as of `accumulate_`.)",
     "ops.var_updates.sparse_accumulate_(table_gradient, rows, tokens)"},
    {"AdamVarUpdate",
     "var_updates.adam_var_update(t, x, r1, r2, learning_rate:factor?>lr@4=None, "
     "max_weight_norm:factor?>mwn@5=None) -> adam_var_update_out",
     R"(t becomes t - learning_rate * ratio * x with ratio = min(sqrt(r1), max_weight_norm) / sqrt(r2), or 1 where one of
the three is 0.

Args:
    t: the weight.
    x: of the shape of `t`: what `lamb_updater` gives.
    r1, r2: (), squared norms of `t` and of `x` (`ops.lamb_square`).
    learning_rate: a number or (); None: 1.
    max_weight_norm: a number or (); None: no limit.

Returns:
    The memory of `t`.

Raises:
    ValueError: the operands are of another graph, or on different IPUs or tile sets.)",
     "ops.var_updates.adam_var_update(w, x, ops.lamb_square(w), ops.lamb_square(x), 0.01)"},
    {"CopyVarUpdate", "var_updates.copy_var_update_(t, X) -> updated__{t.name}",
     R"(t becomes X, converted to the dtype of `t`.

Args:
    t: any shape and dtype.
    X: of the shape of `t`, which is checked when a Session is built.

Returns:
    The memory of `t`.

Raises:
    ValueError: the operands are of another graph, or on different IPUs or tile sets.)",
     "ops.var_updates.copy_var_update_(weight, new_weight)"},
}};

}  // namespace
}  // namespace ipu::popxl
