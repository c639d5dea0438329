// Bounds of slices that are known when the program runs only: `x[t:t + 3]` has a shape because its bounds are a
// constant apart.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

// `to - from` of two integers of one element that count from the same value, as `t + 2` and `t + 5` do; nothing
// where that takes more than additions and subtractions of constants.
std::optional<int64_t> constant_distance(const ir::Value& from, const ir::Value& to);

}  // namespace ipu::frontends::torch_frontend
