// The ops of a forward graph on one part of the batch after another: what lies between two of them is alive for one part
// at a time. Numbers are those of the whole batch; sums of gradients over it are made of the parts' sums.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/common/step_builder.h"
#include "ir/module.h"

namespace ipu::frontends {

struct BatchSerialization {
  int64_t parts = 0;  // up to 1: nothing is cut
  // Parts are joined where a value goes on to another IPU, phase or stage.
  bool joins_at_ipus = true, joins_at_phases = true, joins_at_stages = true;
};

struct CutBatch {
  // What became of the values that are gone: the joined parts, or nullptr where nobody reads the whole.
  std::unordered_map<const ir::Value*, ir::Value*> gone;
  // Neighbouring ops, which run on one part before the next, by their first results; names of values as they were.
  struct Run {
    std::vector<std::string> results;
    std::set<std::string> whole;  // values that they read slices of
  };
  std::vector<Run> runs;
  std::map<std::string, int64_t> axes;  // along which results and whole values of runs are cut
};

// Cuts the batch of host inputs (dimension 0, where its size is a multiple of the parts) and what follows from it, as far
// as the rules of the ops say (ops/definition/batch_rules.h); other ops get the joined parts. Of neighbouring ops all run on
// one part before the next.
// `kept`: values that others refer to, such as those whose gradients are asked for; who reads them reads parts of the whole.
CutBatch serialize_batch(const ForwardGraph& forward, const BatchSerialization& how,
                         const std::map<std::string, StepOptions::Placement>& places,
                         const std::unordered_set<const ir::Value*>& kept);

}  // namespace ipu::frontends
