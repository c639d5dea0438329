// Equations of importers: values with operators, so that an update or a gradient reads as it is written on paper. A number takes the
// element type of the other side.
#pragma once

#include "ops/definition/import_call.h"
#include "support/error.h"

namespace ipu::ops {

class Term {
 public:
  Term(double number) : number_(number) {}  // NOLINT: numbers are terms
  Term(ImportCall& call, ir::Value* value) : call_(&call), value_(value) {}

  ir::Value* value() const { return value_; }
  DType dtype() const { return value_->type().dtype; }
  Term op(std::string_view kind, Attributes attributes = {}) const {
    return {*call_, call_->op(kind, {value_}, std::move(attributes))};
  }
  Term cast(DType dtype) const { return {*call_, call_->cast(value_, dtype)}; }
  static Term op(std::string_view kind, const Term& a, const Term& b) {
    const Term& given = a.call_ != nullptr ? a : b;
    IPU_CHECK(given.call_ != nullptr, "an equation of two numbers");
    return {*given.call_, given.call_->op(kind, {a.value_like(given), b.value_like(given)})};
  }
  // `yes` where this condition holds.
  Term choose(const Term& yes, const Term& no) const {
    const Term& like = yes.call_ != nullptr ? yes : no;
    return {*call_, call_->op("where", {value_, yes.value_like(like), no.value_like(like)})};
  }

 private:
  ir::Value* value_like(const Term& other) const {
    return value_ != nullptr ? value_ : other.call_->builder().scalar(other.dtype(), number_);
  }

  ImportCall* call_ = nullptr;
  ir::Value* value_ = nullptr;
  double number_ = 0.0;
};

inline Term operator+(const Term& a, const Term& b) { return Term::op("add", a, b); }
inline Term operator-(const Term& a, const Term& b) { return Term::op("sub", a, b); }
inline Term operator*(const Term& a, const Term& b) { return Term::op("mul", a, b); }
inline Term operator/(const Term& a, const Term& b) { return Term::op("div", a, b); }
inline Term operator-(const Term& a) { return a.op("neg"); }
inline Term operator<(const Term& a, const Term& b) { return Term::op("less", a, b); }
inline Term operator>(const Term& a, const Term& b) { return Term::op("greater", a, b); }
inline Term operator<=(const Term& a, const Term& b) { return Term::op("less_equal", a, b); }
inline Term operator==(const Term& a, const Term& b) { return Term::op("equal", a, b); }
inline Term operator&&(const Term& a, const Term& b) { return Term::op("logical_and", a, b); }
inline Term operator||(const Term& a, const Term& b) { return Term::op("logical_or", a, b); }
inline Term maximum(const Term& a, const Term& b) { return Term::op("maximum", a, b); }
inline Term minimum(const Term& a, const Term& b) { return Term::op("minimum", a, b); }
inline Term power(const Term& a, const Term& b) { return Term::op("pow", a, b); }
inline Term square(const Term& a) { return a * a; }
inline Term sqrt(const Term& a) { return a.op("sqrt"); }
inline Term rsqrt(const Term& a) { return a.op("rsqrt"); }
inline Term absolute(const Term& a) { return a.op("abs"); }
inline Term sign(const Term& a) { return a.op("sign"); }
inline Term exp(const Term& a) { return a.op("exp"); }

}  // namespace ipu::ops
