// A graph of the IR that is empty between inferences.
#pragma once

#include "ir/module.h"

namespace ipu::popxl {

class InferenceScratch {
 public:
  InferenceScratch() : graph_(module_.add_graph("inference")) {}
  ir::Graph& graph() { return *graph_; }
  void clear();

 private:
  ir::Module module_;
  ir::Graph* graph_;
};

}  // namespace ipu::popxl
