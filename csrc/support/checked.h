// Whole numbers whose arithmetic cannot overflow unseen: sizes and offsets computed from a file's numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/error.h"

namespace ipu {

// Behaves like int64_t; +, - and * throw Error(kInvalidProgram) where the result does not fit. Division by
// zero throws too.
class Checked {
 public:
  constexpr Checked(int64_t value = 0) : value_(value) {}  // implicit: mixes with plain numbers
  constexpr int64_t value() const { return value_; }

  friend Checked operator+(Checked a, Checked b) {
    int64_t result = 0;
    return __builtin_add_overflow(a.value_, b.value_, &result) ? overflow() : Checked(result);
  }
  friend Checked operator-(Checked a, Checked b) {
    int64_t result = 0;
    return __builtin_sub_overflow(a.value_, b.value_, &result) ? overflow() : Checked(result);
  }
  friend Checked operator*(Checked a, Checked b) {
    int64_t result = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &result) ? overflow() : Checked(result);
  }
  friend Checked operator/(Checked a, Checked b) {
    return b.value_ == 0 || (b.value_ == -1 && a.value_ == INT64_MIN) ? overflow()
                                                                      : Checked(a.value_ / b.value_);
  }
  Checked& operator+=(Checked b) { return *this = *this + b; }
  Checked& operator-=(Checked b) { return *this = *this - b; }
  Checked& operator*=(Checked b) { return *this = *this * b; }
  Checked operator-() const { return Checked(0) - *this; }
  constexpr auto operator<=>(const Checked&) const = default;

 private:
  [[noreturn]] static Checked overflow() {
    throw Error(ErrorCode::kInvalidProgram, "size overflow: a size or an offset does not fit 64 bits");
  }
  int64_t value_;
};

}  // namespace ipu
