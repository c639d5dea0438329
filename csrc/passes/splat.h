// Values all of whose elements are one number that is known.
#pragma once

#include <optional>

#include "ir/module.h"

namespace ipu::passes {

// The number all elements of a constant have, seen through expand and reshape.
std::optional<double> splat_of(const ir::Value* value);

}  // namespace ipu::passes
