// The bytes of the values that live side by side on each IPU, over a module in the functional form (tile_memory.h says
// what shares memory).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace ipu::report {

// By the places of IPUs in the sorted list `ipus`, which has all that the module names.
std::vector<int64_t> live_at_peak(const ir::Module& module, const std::vector<int>& ipus);

// The IPU of a value: that of its op, else of its first reader that has one, else 0.
int ipu_of(const ir::Value& value);

}  // namespace ipu::report
