// The loops of reductions over the members of a group: blocks of elements, folded in the order of the members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "support/dtype.h"

namespace ipu::kernels {

inline constexpr int64_t kMemberBlock = 1024;  // most elements of a block

struct MemberBlock {
  const std::byte* const* operands = nullptr;  // of the members
  int64_t members = 0;
  int64_t at = 0, count = 0;     // elements of each operand
  std::byte* result = nullptr;   // `count` elements; no operand's memory
  std::byte* scratch = nullptr;  // kMemberScratch bytes
};
inline constexpr int64_t kMemberScratch = kMemberBlock * (8 + 4);

// f32 is folded in f32. f16 is folded in f64, where its sums are exact, and rounded once. Integers wrap
// around. Any byte of a bool but 0 is true, and becomes 1. min and max of a NaN are NaN.
using FoldMembers = void (*)(const MemberBlock&);

// nullptr: this reduction is none of this element type. `reduction` is sum, mean, prod, min, max, square_sum
// (numbers; mean: floating point only), and, or (bool).
FoldMembers fold_members(std::string_view reduction, DType dtype);

}  // namespace ipu::kernels
