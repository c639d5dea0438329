// Importers of torch's pointwise operators that are formulas of a few ops: they have no op of their own.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operands of one call in the type it is computed in, and ops on them. Halves are computed in f32 and
// rounded once.
class Formula {
 public:
  explicit Formula(AtenImportCall& call) : call_(call), dtype_(call.result_type(0).dtype) {
    if (dtype_ == DType::kF16) dtype_ = DType::kF32;
  }
  // Makes the formula of a predicate, which is computed in the type of the operand, `dtype`.
  Formula(AtenImportCall& call, DType dtype) : call_(call), dtype_(dtype) {}

  ir::Value* operand(std::string_view name) { return call_.operand(name, dtype_); }
  ir::Value* number(double value) { return call_.builder().scalar(dtype_, value); }
  template <typename... Values>
  ir::Value* op(std::string_view kind, Values... values) {
    return call_.op(kind, {values...});
  }
  bool is_float() const { return is_floating_point(dtype_); }
  ir::Value* no() { return call_.builder().scalar(DType::kBool, 0.0); }
  // Less than zero, or a zero that is.
  ir::Value* is_negative(ir::Value* x) {
    ir::Value* less = op("less", x, number(0.0));
    if (!is_float()) return less;
    ir::Value* zero =
        op("logical_and", op("equal", x, number(0.0)), op("less", op("div", number(1.0), x), number(0.0)));
    return op("logical_or", less, zero);
  }
  void set(ir::Value* value) {
    const ir::Type wanted = call_.result_type(0);
    call_.set_result(0, expanded(call_, call_.cast(value, wanted.dtype), wanted.shape));
  }

 private:
  AtenImportCall& call_;
  DType dtype_;
};

void import_scaled(AtenImportCall& call, double factor) {
  Formula f(call);
  f.set(f.op("mul", f.operand("self"), f.number(factor)));
}

void import_exp2(AtenImportCall& call) {
  Formula f(call);
  f.set(f.op("pow", f.number(2.0), f.operand("self")));
}

// Whether x is infinite: with a sign, or with any for 0.
void import_infinite(AtenImportCall& call, int sign) {
  Formula f(call, call.tensor("self")->type().dtype);
  if (!f.is_float()) return f.set(f.no());
  ir::Value* x = f.operand("self");
  f.set(f.op("equal", sign == 0 ? f.op("abs", x) : x, f.number(sign < 0 ? -kInfinity : kInfinity)));
}

void import_sign_bit(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  if (x->type().dtype == DType::kBool) return call.set_result(0, call.builder().splat(x->type(), 0.0));
  Formula f(call, x->type().dtype);
  f.set(f.is_negative(x));
}

// The operand that is no NaN; of two equal ones the first, for the gradient.
void import_extreme(AtenImportCall& call, std::string_view comparison) {
  Formula f(call, call.result_type(0).dtype);
  ir::Value *a = f.operand("self"), *b = f.operand("other");
  if (call.result_type(0).dtype == DType::kBool)
    return f.set(f.op(comparison == "greater_equal" ? "logical_or" : "logical_and", a, b));
  ir::Value* first = f.op(comparison, a, b);
  if (f.is_float()) first = f.op("logical_or", first, f.op("is_nan", b));
  f.set(f.op("where", first, a, b));
}

// Scaled by the larger one, so that squares do not overflow. Infinity wins, over NaN too.
void import_hypot(AtenImportCall& call) {
  Formula f(call);
  ir::Value *a = f.operand("self"), *b = f.operand("other");
  ir::Value *p = f.op("abs", a), *q = f.op("abs", b), *infinity = f.number(kInfinity);
  ir::Value* infinite = f.op("logical_or", f.op("equal", p, infinity), f.op("equal", q, infinity));
  ir::Value* scale = f.op("detach", f.op("maximum", p, q));
  ir::Value* unusable = f.op("logical_or", f.op("equal", scale, f.number(0.0)), infinite);
  scale = f.op("where", unusable, f.number(1.0), scale);
  ir::Value *u = f.op("div", a, scale), *v = f.op("div", b, scale);
  ir::Value* root = f.op("sqrt", f.op("add", f.op("mul", u, u), f.op("mul", v, v)));
  f.set(f.op("where", infinite, infinity, f.op("mul", scale, root)));
}

// log(base^a + base^b), from the larger one on; `log_base`: log(base).
void import_log_add_exp(AtenImportCall& call, double log_base) {
  Formula f(call);
  ir::Value *a = f.operand("self"), *b = f.operand("other");
  ir::Value *equal = f.op("equal", a, b), *infinite = f.op("equal", f.op("abs", a), f.number(kInfinity));
  ir::Value* same = f.op("logical_and", equal, infinite);
  ir::Value* distance =
      f.op("abs", f.op("sub", f.op("where", same, f.number(0.0), a), f.op("where", same, f.number(0.0), b)));
  ir::Value* more = f.op("log1p", f.op("exp", f.op("mul", distance, f.number(-log_base))));
  ir::Value* sum = f.op("add", f.op("maximum", a, b), f.op("div", more, f.number(log_base)));
  f.set(f.op("where", same, a, sum));
}

// x * log(y), or log(1 + y), and 0 where x is 0 and the logarithm is infinite or none.
void import_x_log(AtenImportCall& call, std::string_view logarithm) {
  Formula f(call);
  ir::Value *x = f.operand("self"), *y = f.operand("other");
  ir::Value* least = f.number(logarithm == "log" ? 0.0 : -1.0);
  ir::Value* no_number =
      f.op("logical_or", f.op("less_equal", y, least), f.op("equal", y, f.number(kInfinity)));
  ir::Value* zero = f.op("logical_and", f.op("equal", x, f.number(0.0)), no_number);
  ir::Value* product = f.op("mul", x, f.op(logarithm, f.op("where", zero, f.number(1.0), y)));
  f.set(f.op("where", zero, f.number(0.0), product));
}

void import_copysign(AtenImportCall& call) {
  Formula f(call);
  ir::Value* size = f.op("abs", f.operand("self"));
  f.set(f.op("where", f.is_negative(f.operand("other")), f.op("neg", size), size));
}

void import_heaviside(AtenImportCall& call) {
  Formula f(call, call.result_type(0).dtype);
  ir::Value *x = f.operand("self"), *at_zero = f.operand("values");
  if (x->type().dtype == DType::kBool) return f.set(f.op("logical_or", x, at_zero));
  ir::Value* step = call.cast(f.op("greater", x, f.number(0.0)), x->type().dtype);
  f.set(f.op("where", f.op("equal", x, f.number(0.0)), at_zero, step));
}

void import_nan_to_num(AtenImportCall& call) {
  const DType dtype = call.result_type(0).dtype;
  Formula f(call, dtype);
  ir::Value* x = f.operand("self");
  if (!f.is_float()) return f.set(x);
  const double most = dtype == DType::kF16 ? 65504.0 : std::numeric_limits<float>::max();
  const auto given = [&](std::string_view name, double fallback) {
    return f.number(call.has(name) ? call.real(name) : fallback);
  };
  x = f.op("where", f.op("is_nan", x), given("nan", 0.0), x);
  x = f.op("where", f.op("equal", x, f.number(kInfinity)), given("posinf", most), x);
  f.set(f.op("where", f.op("equal", x, f.number(-kInfinity)), given("neginf", -most), x));
}

void import_sinc(AtenImportCall& call) {
  Formula f(call);
  ir::Value* x = f.op("mul", f.operand("self"), f.number(std::numbers::pi));
  ir::Value* zero = f.op("equal", x, f.number(0.0));
  ir::Value* safe = f.op("where", zero, f.number(1.0), x);
  f.set(f.op("where", zero, f.number(1.0), f.op("div", f.op("sin", safe), safe)));
}

void import_logit(AtenImportCall& call) {
  Formula f(call);
  ir::Value* x = f.operand("self");
  if (call.has("eps")) {
    const double eps = call.real("eps");
    // As torch orders them: the upper bound is looked at first.
    ir::Value* above = f.op("greater", x, f.number(1.0 - eps));
    ir::Value* below = f.op("less", x, f.number(eps));
    x = f.op("where", below, f.number(eps), f.op("where", above, f.number(1.0 - eps), x));
  }
  f.set(f.op("log", f.op("div", x, f.op("sub", f.number(1.0), x))));
}

struct PointwiseImporters {
  PointwiseImporters() {
    const auto add = [](std::initializer_list<const char*> names, const AtenImporter& importer) {
      for (const char* name : names) register_aten_importer(name, importer);
    };
    add({"deg2rad"}, [](AtenImportCall& c) { import_scaled(c, std::numbers::pi / 180.0); });
    add({"rad2deg"}, [](AtenImportCall& c) { import_scaled(c, 180.0 / std::numbers::pi); });
    add({"exp2"}, import_exp2);
    add({"isinf"}, [](AtenImportCall& c) { import_infinite(c, 0); });
    add({"isposinf"}, [](AtenImportCall& c) { import_infinite(c, 1); });
    add({"isneginf"}, [](AtenImportCall& c) { import_infinite(c, -1); });
    add({"signbit"}, import_sign_bit);
    add({"fmax"}, [](AtenImportCall& c) { import_extreme(c, "greater_equal"); });
    add({"fmin"}, [](AtenImportCall& c) { import_extreme(c, "less_equal"); });
    add({"hypot"}, import_hypot);
    add({"logaddexp"}, [](AtenImportCall& c) { import_log_add_exp(c, 1.0); });
    add({"logaddexp2"}, [](AtenImportCall& c) { import_log_add_exp(c, std::numbers::ln2); });
    add({"xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"},
        [](AtenImportCall& c) { import_x_log(c, "log"); });
    add({"special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar"},
        [](AtenImportCall& c) { import_x_log(c, "log1p"); });
    add({"copysign.Tensor", "copysign.Scalar"}, import_copysign);
    add({"heaviside"}, import_heaviside);
    add({"nan_to_num"}, import_nan_to_num);
    add({"sinc"}, import_sinc);
    add({"logit"}, import_logit);
  }
};
const PointwiseImporters pointwise_importers;

}  // namespace
}  // namespace ipu::ops
