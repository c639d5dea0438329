#include "kernels/collective/fold_members.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/pointwise/block_ops.h"

namespace ipu::kernels {
namespace {

// Integers wrap around: no overflow of signed numbers, nor of the int that small ones are computed in.
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  else
    return a + b;
}
template <class T>
T times(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  else
    return a * b;
}

// Each: what an element starts as, how that of the next member joins it, whether the number of members divides
// the end.
struct Fold {
  template <class T>
  static T first(T x) {
    return x;
  }
  static constexpr bool kDivides = false;
};
struct Sum : Fold {
  template <class T>
  static T join(T a, T x) {
    return plus(a, x);
  }
};
struct Mean : Sum {
  static constexpr bool kDivides = true;
};
struct SquareSum : Fold {
  template <class T>
  static T first(T x) {
    return times(x, x);
  }
  template <class T>
  static T join(T a, T x) {
    return plus(a, times(x, x));
  }
};
struct Product : Fold {
  template <class T>
  static T join(T a, T x) {
    return times(a, x);
  }
};
// Not a number where one of them is none, whichever member has it.
template <class T>
bool is_number(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return !std::isnan(x);
  else
    return true;
}
struct Least : Fold {
  template <class T>
  static T join(T a, T x) {
    return x < a || !is_number(x) ? x : a;
  }
};
struct Most : Fold {
  template <class T>
  static T join(T a, T x) {
    return x > a || !is_number(x) ? x : a;
  }
};
// Folds bools: any byte but 0 counts as true, and true is written as 1.
struct And : Fold {
  template <class T>
  static T first(T x) {
    return static_cast<T>(x != 0);
  }
  template <class T>
  static T join(T a, T x) {
    return static_cast<T>(a & first(x));
  }
};
struct Or : And {
  template <class T>
  static T join(T a, T x) {
    return static_cast<T>(a | first(x));
  }
};

template <class Op, class T>
void finish(T* total, int64_t count, int64_t members) {
  if constexpr (Op::kDivides) {
    const T divisor = static_cast<T>(members);
    for (int64_t i = 0; i < count; ++i) total[i] /= divisor;
  }
}

// Element type and register are one: f32 and integers.
template <class Op, class T>
void fold_plain(const MemberBlock& block) {
  auto operand = [&](int64_t m) { return reinterpret_cast<const T*>(block.operands[m]) + block.at; };
  T* __restrict total = reinterpret_cast<T*>(block.result);
  const int64_t count = block.count;
  const T* a = operand(0);
  int64_t m = 1;
  if (block.members == 1) {
    for (int64_t i = 0; i < count; ++i) total[i] = Op::first(a[i]);
  } else {
    const T* b = operand(m++);
    for (int64_t i = 0; i < count; ++i) total[i] = Op::join(Op::first(a[i]), b[i]);
  }
  for (; m < block.members; ++m) {
    const T* x = operand(m);
    for (int64_t i = 0; i < count; ++i) total[i] = Op::join(total[i], x[i]);
  }
  finish<Op>(total, count, block.members);
}

// To f32 with the last bit set when the value is not exact: rounding that to fewer bits is one rounding of the
// value itself.
float to_odd(double value) {
  const auto near = static_cast<float>(value);
  const auto back = static_cast<double>(near);
  auto bits = std::bit_cast<uint32_t>(near);
  bits -= std::fabs(back) > std::fabs(value) ? 1 : 0;
  bits |= back != value ? 1 : 0;
  return std::bit_cast<float>(bits);
}

template <class Op>
void fold_half(const MemberBlock& block) {
  auto* __restrict total = reinterpret_cast<double*>(block.scratch);
  auto* __restrict single = reinterpret_cast<float*>(block.scratch + kMemberBlock * 8);
  const auto type = static_cast<size_t>(DType::kF16);
  const BlockOps& ops = block_ops();
  BlockCall call;
  call.count = static_cast<size_t>(block.count);
  for (int64_t m = 0; m < block.members; ++m) {
    call.a = block.operands[m] + block.at * 2;
    call.result = single;
    ops.widen[type](call);
    if (m == 0)
      for (int64_t i = 0; i < block.count; ++i) total[i] = Op::first(static_cast<double>(single[i]));
    else
      for (int64_t i = 0; i < block.count; ++i) total[i] = Op::join(total[i], static_cast<double>(single[i]));
  }
  finish<Op>(total, block.count, block.members);
  for (int64_t i = 0; i < block.count; ++i) single[i] = to_odd(total[i]);
  call.a = single;
  call.result = block.result;
  ops.narrow[type](call);
}

template <class Op>
FoldMembers fold_of(DType dtype) {
  if (dtype == DType::kF32) return &fold_plain<Op, float>;
  if (dtype == DType::kF16) return &fold_half<Op>;
  if constexpr (!Op::kDivides) {
    if (dtype == DType::kI32) return &fold_plain<Op, int32_t>;
    if (dtype == DType::kU32) return &fold_plain<Op, uint32_t>;
    if (dtype == DType::kI16) return &fold_plain<Op, int16_t>;
    if (dtype == DType::kU16) return &fold_plain<Op, uint16_t>;
    if (dtype == DType::kI8) return &fold_plain<Op, int8_t>;
    if (dtype == DType::kU8) return &fold_plain<Op, uint8_t>;
  }
  return nullptr;
}

}  // namespace

FoldMembers fold_members(std::string_view reduction, DType dtype) {
  if (dtype == DType::kBool) {
    if (reduction == "and") return &fold_plain<And, uint8_t>;
    if (reduction == "or") return &fold_plain<Or, uint8_t>;
    return nullptr;
  }
  if (reduction == "sum") return fold_of<Sum>(dtype);
  if (reduction == "mean") return fold_of<Mean>(dtype);
  if (reduction == "prod") return fold_of<Product>(dtype);
  if (reduction == "square_sum") return fold_of<SquareSum>(dtype);
  if (reduction == "min") return fold_of<Least>(dtype);
  if (reduction == "max") return fold_of<Most>(dtype);
  return nullptr;
}

}  // namespace ipu::kernels
