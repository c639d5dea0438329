// Which forward values the backward pass makes again from what is kept, instead of reading them from memory: those of
// marked ops (recomputation_rule.h). Kept are what enters the stage (inputs from the host or from other stages, seeds of
// random ops among them) and what is not marked. The plan follows from the ops of the module and its options; its
// bytes are logical. Not here: which values flow through rings (pipeline-to-rings), whether a host carries it out
// (recompute-on-host).
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/strategy.h"

namespace ipu::passes {

class RecomputationPlan {
 public:
  // Empty where neither the options nor an op ask for any, or where it is done already.
  explicit RecomputationPlan(const ir::Module& module);

  bool is_asked_for() const { return is_asked_for_; }
  int64_t operations() const;                                // that are done again
  int64_t stash_bytes() const { return bytes_before_; }      // kept for the backward pass without it
  int64_t stash_bytes_left() const { return bytes_after_; }  // and with it

  // Clones the ops to repeat in front of the first backward reader that needs them; clones and all ops that the rule
  // marks say so. The clones are the same ops on the same values, random ones included, so numbers do not change by a
  // bit. True when anything was changed.
  bool execute() const;

  // The backward ops of one stage, or of one IPU, and the forward values they read.
  struct Region {
    std::vector<ir::Op*> readers;  // backward ops, in order
    std::vector<ir::Value*> read;  // forward values they read, in order of first use
    std::unordered_set<const ir::Value*>
        is_kept;  // asked for by a recomputed op, or read and not recomputable
    std::vector<ir::Value*> kept;
    std::unordered_set<ir::Op*> again;  // forward ops to be cloned
    int64_t copies = 1;                 // micro-batches in flight
  };

 private:
  struct InGraph {
    ir::Graph* graph;
    std::unordered_set<ir::Op*> marked;
    std::vector<Region> regions;
  };
  void plan_pipeline(const ir::Op& pipeline, ir::Graph& body);
  void plan_graph(ir::Graph& graph);
  void add_bytes();

  const ir::Strategy strategy_;
  bool is_asked_for_ = false;
  std::vector<InGraph> plans_;
  int64_t bytes_before_ = 0, bytes_after_ = 0;
};

}  // namespace ipu::passes
