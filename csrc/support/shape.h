// Static shapes and overflow-checked sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/dtype.h"

namespace ipu {

using Shape = std::vector<int64_t>;    // outermost first; {} is a scalar; 0 is a legal extent
using Strides = std::vector<int64_t>;  // in elements, same order as the shape; 0 broadcasts

int64_t element_count(std::span<const int64_t> shape);               // raises ipu::Error on overflow
int64_t size_in_bytes(DType dtype, std::span<const int64_t> shape);  // raises ipu::Error on overflow
Strides contiguous_strides(std::span<const int64_t> shape);
std::string to_string(std::span<const int64_t> shape);  // "[2,3]"

// NumPy broadcasting; raises ipu::Error naming both shapes when they do not fit.
Shape broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b);
// Strides that read a contiguous tensor of `from` as if it had shape `to` (0 where it repeats).
Strides broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);

}  // namespace ipu
