// The proof that a graph in authored form says in which order each write and every other access of that memory
// happen, by operands or order edges; a graph that leaves it open is refused
// (enableInplaceAmbiguityChecking of PopART). Reading and writing a view are accesses of the memory it lies in;
// making a view is none.
#pragma once

#include "ir/module.h"

namespace ipu::passes {

void check_order(const ir::Graph& graph);  // throws Error(kInvalidIr) naming the memory and the two ops

}  // namespace ipu::passes
