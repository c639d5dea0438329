// The updates of ops.var_updates: input 0 is overwritten. They are made without a look at the types, as programs update
// integers and halves with what has other types; arithmetic is that of the variable. A factor is an attribute or an input.
#include <fmt/core.h>

#include <cmath>

#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

// The result is the memory of input 0, a shard as well.
void same_as_variable(InferCall& c) { c.set_output(0, c.input(0)); }

void require_equal_shapes(const LowerCall& c, int i) {
  if (c.shape(i) != c.shape(0))
    c.refuse(fmt::format("the update {} must have the shape of the variable, {}", ipu::to_string(c.shape(i)),
                         ipu::to_string(c.shape(0))));
}

// One update of a variable, in the type of the variable; integers with a factor that is no whole number are computed in
// f32 and cut off.
class Update {
 public:
  Update(LowerCall& call, int factor_input, bool divides) : c(call), dtype_(c.type(0).dtype) {
    const bool given = c.has(factor_input);
    const double factor = c.attributes().real("factor", 1.0);
    if (!is_floating_point(dtype_) &&
        (divides || (given ? is_floating_point(c.type(factor_input).dtype) : factor != std::floor(factor))))
      dtype_ = DType::kF32;
    f_ = given ? c.cast(c.reshape(c.input(factor_input), {}), dtype_) : c.scalar(dtype_, factor);
  }
  ir::Value* t() { return c.cast(c.input(0), dtype_); }
  ir::Value* x() { return c.cast(c.input(1), dtype_); }
  ir::Value* f() { return f_; }
  ir::Value* one() { return c.scalar(dtype_, 1.0); }
  ir::Value* squared() { return mul(x(), x()); }
  ir::Value* add(ir::Value* a, ir::Value* b) { return c.build("add", {a, b}); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return c.build("sub", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return c.build("mul", {a, b}); }
  ir::Value* div(ir::Value* a, ir::Value* b) { return c.build("div", {a, b}); }
  void finish(ir::Value* value) { c.overwrite(0, c.cast(value, c.type(0).dtype)); }

 private:
  LowerCall& c;
  DType dtype_;
  ir::Value* f_;
};

constexpr int kFactor = 2;

// Attributes accumulationType (names of popart's enum) and factor.
void accumulate(LowerCall& c) {
  require_equal_shapes(c, 1);
  const std::string type = c.attributes().text("accumulationType", "Add");
  const bool is_constant = !c.has(kFactor);
  const double factor = c.attributes().real("factor", 1.0);
  Update u(c, kFactor, type == "Mean");
  if (type == "Add") return u.finish(u.add(u.t(), u.x()));
  if (type == "DampenedAdd" || type == "DampenedAddSquare") {
    if (is_constant && factor == 0.0) c.refuse("the factor 0 adds nothing; leave the update out");
    ir::Value* x = type == "DampenedAdd" ? u.x() : u.squared();
    return u.finish(u.add(u.t(), is_constant && factor == 1.0 ? x : u.mul(u.f(), x)));
  }
  if (type == "DecayAdd") return u.finish(u.add(u.mul(u.f(), u.t()), u.x()));
  if (type == "DecayAddSquare") return u.finish(u.add(u.mul(u.f(), u.t()), u.squared()));
  if (type == "MovingAverage" || type == "MovingAverageSquare") {
    ir::Value* x = type == "MovingAverage" ? u.x() : u.squared();
    return u.finish(u.add(u.mul(u.f(), u.t()), u.mul(u.sub(u.one(), u.f()), x)));
  }
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
  Update u(c, kFactor, false);
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
  Update u(c, kFactor, false);
  ir::Value* x = c.reshape(u.x(), slices);
  if (c.has(kFactor) || c.attributes().real("factor", 1.0) != 1.0) x = u.mul(u.f(), x);
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

}  // namespace
}  // namespace ipu::popxl
