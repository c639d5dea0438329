// Internal tensors that come back beside the results (Options.anchorTensor): their names, and the streams that carry
// them. An anchor is one more output stream "anchor.<short name>" of the program; an updated weight that only
// its last value is wanted of is read from its variable instead.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/common/step_builder.h"
#include "ir/module.h"
#include "ir/tensor_names.h"
#include "program/program.h"

namespace ipu::frontends::torch_frontend {

struct AnchorRequest {
  std::string short_name, long_name;
  ir::OutputMode mode = ir::OutputMode::kFinal;
  int64_t period = 1;
};

inline constexpr const char* kAnchorPrefix = "anchor.";
using ir::kGradientPrefix;
using ir::kUpdatedPrefix;

// Names of everything that can be anchored: inputs, states, results of operations ("fc1/MatMul:0"), and in
// training gradients and updated weights; with automatic loss scaling its product. In graph order.
std::vector<std::string> tensor_names(const ForwardGraph& forward, const StepOptions& step);

// Adds what `requests` ask for to the forward graph's outputs and to the step; a period that does not fit gives way to
// mode and period of `otherwise`. Error(kAnchor) for an unknown name.
void add_anchors(ForwardGraph& forward, StepOptions& step, const std::vector<AnchorRequest>& requests,
                 const AnchorRequest& otherwise);

}  // namespace ipu::frontends::torch_frontend
