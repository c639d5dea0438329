// Graphs whose calls stay calls down to the program, where they become subroutines. The attribute `subroutine` of a
// graph says so: set by the pass inline-calls, or asked for by who builds the graph; false: its calls never stay.
#pragma once

#include "ir/regions.h"

namespace ipu::ir {

inline constexpr const char* kSubroutine = "subroutine";

inline bool is_subroutine(const Graph& graph) { return graph.attributes.boolean(kSubroutine, false); }

// What `op` calls, when that stays a subroutine; nullptr: nothing, or a graph that is put in its place.
inline Graph* called_subroutine(const Op& op) {
  if (!op.is(kind::kCall)) return nullptr;
  Graph& callee = Region(op).body();
  return is_subroutine(callee) ? &callee : nullptr;
}

}  // namespace ipu::ir
