// Whether an op that runs graphs has as many as its type, and connects inputs and outputs that they have. Programs take such ops
// apart and edit the graphs: this is asked before an op is compiled or differentiated.
#pragma once

#include "frontends/popxl/program.h"

namespace ipu::popxl {

void check_call(const Op& op);  // Error(kInvalidIr) naming op and graph

}  // namespace ipu::popxl
