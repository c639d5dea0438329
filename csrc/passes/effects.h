// What passes may assume about an op, graphs it calls included: the closure of ops::effects over a module.
// Opaque ops (no definition) may do anything, so they are neither merged nor dropped.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace ipu::passes {

// Graphs of the module, each after the graphs it calls. Linear, without recursion. Expects no cycles.
std::vector<ir::Graph*> callees_first(const ir::Module& module);

// Ops that call a graph, in order of the module's graphs and ops.
using CallSites = std::unordered_map<const ir::Graph*, std::vector<ir::Op*>>;
CallSites find_call_sites(const ir::Module& module);

// Order edges and ops in place belong to the authored form. Rewrites leave graphs that have some alone: what
// they merge or move would have to keep the edges, and equal ops may read different contents.
bool has_order_edges(const ir::Graph& graph);

// The remote buffer where the variable lives that `op` assigns; "": it assigns none that lives in one.
std::string assigned_buffer(const ir::Op& op);

// Erases each code_load of a graph that is gone: its code now stands where it was called, or nowhere.
void erase_stale_code_loads(ir::Module& module);

// Computed once for a module; stays valid while no op with effects is added to a graph.
class Effects {
 public:
  explicit Effects(const ir::Module& module);

  // Its results are a function of operands and attributes, nothing else happens: equal ops give equal values.
  bool is_pure(const ir::Op& op) const { return level(op) == Level::kPure; }
  // Nothing is lost when nobody reads its results.
  bool is_removable(const ir::Op& op) const { return level(op) != Level::kEffects; }

 private:
  enum class Level : uint8_t { kPure, kReadsState, kEffects };
  Level level(const ir::Op& op) const;
  std::unordered_map<const ir::Graph*, Level> graphs_;
};

}  // namespace ipu::passes
