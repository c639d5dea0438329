// Which ops round: f16 results of arithmetic are values between two halves, those of ops that move, choose or compare
// are halves already. Asked by the pass that rounds at random.
#pragma once

#include "ir/module.h"

namespace ipu::ops {

// An op of this library that has an f16 result whose elements may lie between two halves before they are rounded.
bool rounds_halves(const ir::Op& op);

}  // namespace ipu::ops
