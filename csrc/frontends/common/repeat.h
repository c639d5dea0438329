// Repetition in programs under construction. What changes from round to round is held in numbered slots, so
// the same emitting function serves straight code, loops and pipelines.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace ipu::frontends {

using Slots = std::vector<ir::Value*>;  // nullptr: not available at this place
using RepeatBody =
    std::function<void(ir::Builder&, Slots&, ir::Value* index)>;  // index: nullptr when run once

// Runs `body` `trip` times: as it stands when once, else as a loop (or pipeline) that carries the slots in
// `changed` and reads the others as invariants. `slots` then hold the values after the last round.
void repeat(ir::Builder& builder, Slots& slots, int64_t trip, const std::set<int>& changed, bool as_pipeline,
            const std::string& name, const RepeatBody& body);

}  // namespace ipu::frontends
