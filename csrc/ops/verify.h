// Verifier of modules with defined ops: the structural rules of ir/verify/verifier.h, then each op against its
// definition.
#pragma once

#include "ir/verify/verifier.h"

namespace ipu::ops {

std::vector<ir::Violation> find_violations(const ir::Module& module, ir::Form form);
void verify(const ir::Module& module, ir::Form form);  // Error(kInvalidIr) listing all of them

}  // namespace ipu::ops
