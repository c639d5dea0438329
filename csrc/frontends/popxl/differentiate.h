// transforms.autodiff: the gradient graph of a graph, of the published structure. One gradient op for each forward
// op and differentiable argument, one Sum for each tensor, forward values as inputs by id.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "frontends/popxl/program.h"

namespace ipu::popxl {

enum class ConnectionType : uint8_t { kFwd, kFwdGrad };
struct ExpectedConnection {
  std::string forward_id;
  ConnectionType type;
};
struct GradGraphInfo {
  std::string graph_id;  // of the gradient graph
  std::vector<ExpectedConnection> inputs, outputs;
};
enum class Stitch : uint8_t { kRecomputeMinimal, kRecomputeAllNonInputs, kAddFwdOutputs, kSafeAddFwdOutputs };

// By id of the forward graph: of `graph`, of its callees, and those given. Empty `required`: all inputs.
std::map<std::string, GradGraphInfo> differentiate(Graph& graph, const std::vector<std::string>& provided,
                                                   const std::optional<std::vector<std::string>>& required,
                                                   std::map<std::string, GradGraphInfo> known,
                                                   Stitch stitch = Stitch::kSafeAddFwdOutputs);

}  // namespace ipu::popxl
