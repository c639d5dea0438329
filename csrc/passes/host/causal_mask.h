// The mask of attention that lets a row see the columns up to its own.
#pragma once

#include "ir/module.h"

namespace ipu::passes {

// Whether `condition` is what the compound `attention` makes of causal: row >= column, of two dimensions.
bool is_causal(const ir::Value* condition);

}  // namespace ipu::passes
