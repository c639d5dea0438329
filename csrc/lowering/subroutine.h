// A graph that stays a subroutine: its nest and what each IPU needs of it, found once for all calls. On each IPU
// that runs a part of it, a call hands over the inputs read there and takes the outputs made there.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lowering/demand.h"
#include "lowering/nest.h"

namespace ipu::lowering {

class Subroutine {
 public:
  // `known`: the subroutines it calls, at least.
  Subroutine(const ir::Module& module, const ir::Graph& graph, const Subroutines& known)
      : nest_(module, graph, &known), demand_(nest_) {}

  const ir::Graph& graph() const { return *nest_.root().graph; }
  const Nest& nest() const { return nest_; }
  const Demand& demand() const { return demand_; }
  bool is_active(int ipu) const { return ipu < nest_.ipu_count() && demand_.is_active(ipu, nest_.root()); }
  int input_home(int i) const { return nest_.home(nest_.root(), graph().inputs()[i]); }

  // Inputs and outputs that are parameters on an IPU. Not the outputs that are an input, or an earlier output:
  // calls know where those lie.
  std::vector<int> inputs(int ipu) const;
  std::vector<int> outputs(int ipu) const;
  int input_returned(int output) const;  // which input it is; -1: none
  int first_like(int output) const;      // the first output that is the same value

  std::vector<int> numbers;  // by IPU: in the list of its program; -1: it runs nothing

 private:
  Nest nest_;
  Demand demand_;
};

// Subroutines in the order of a program: callees first.
struct Subroutines {
  std::vector<std::unique_ptr<Subroutine>> list;
  std::unordered_map<const ir::Graph*, Subroutine*> by_graph;

  const Subroutine* find(const ir::Graph& graph) const {
    auto at = by_graph.find(&graph);
    return at == by_graph.end() ? nullptr : at->second;
  }
};

// Those that the entry graphs reach.
Subroutines find_subroutines(const ir::Module& module, const std::vector<const ir::Graph*>& entries);

}  // namespace ipu::lowering
