#include "frontends/torch/executor/anchors.h"

#include <algorithm>
#include <array>

#include "frontends/torch/executor/back_end_form.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::frontends::torch_frontend {
namespace {

// The value of an entry; a product becomes an op of its own.
ir::Value* value_of(const ForwardGraph& forward, const ForwardNames::Entry& entry) {
  if (entry.value != nullptr) return entry.value;
  ir::Op* op = entry.product_of;
  return forward.graph->copy(*op, std::array<ir::Value*, 2>{op->operand(0), op->operand(1)}, op)->result();
}

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

[[noreturn]] void raise_unknown(const AnchorRequest& request, std::vector<std::string> names) {
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return common_prefix(a, request.long_name) > common_prefix(b, request.long_name);
  });
  std::string text = "unknown tensor: anchorTensor(\"" + request.short_name + "\", \"" + request.long_name +
                     "\") names none of the " + std::to_string(names.size()) + " tensors of the model";
  const size_t shown = std::min<size_t>(names.size(), 3);
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? ". Nearest are " : ", ") + names[i];
  throw Error(ErrorCode::kAnchor,
              text + "\n  try:      getTensorNames() of the compiled model lists them all");
}

bool is_trainable(const ForwardGraph& forward, const std::string& name) {
  return std::any_of(forward.inputs.begin(), forward.inputs.end(),
                     [&](const ForwardGraph::Input& i) { return i.trainable && i.name == name; });
}

}  // namespace

std::vector<std::string> tensor_names(const ForwardGraph& forward, const StepOptions& step) {
  std::vector<std::string> names;
  for (const ForwardNames::Entry& entry : forward_names(forward).in_order) names.push_back(entry.name);
  if (!step.training) return names;
  for (const char* prefix : {kGradientPrefix, kUpdatedPrefix})
    for (const ForwardGraph::Input& input : forward.inputs)
      if (input.trainable) names.push_back(prefix + input.name);
  if (step.loss_scaling.is_automatic) names.emplace_back(kFinalLossScale);
  return names;
}

void add_anchors(ForwardGraph& forward, StepOptions& step, const std::vector<AnchorRequest>& requests,
                 const AnchorRequest& otherwise) {
  if (requests.empty()) return;
  const auto named = forward_names(forward).in_order;
  static constexpr const char* kModes[] = {"FINAL", "EVERYN", "ALL", "Sum"};
  for (AnchorRequest request : requests) {
    if (request.mode != ir::OutputMode::kEveryN) request.period = 1;
    if (log_enabled(LogLevel::kDebug))
      log(LogLevel::kDebug, "anchor ( " + request.long_name + " " +
                                kModes[static_cast<size_t>(request.mode)] + "/" +
                                std::to_string(request.period) + " )");
    if (step.device_iterations % request.period != 0)
      request.mode = otherwise.mode, request.period = otherwise.period;
    const std::string stream = kAnchorPrefix + request.short_name;
    auto of_parameter = [&](const std::string& prefix, std::vector<StepOptions::Anchor>& anchors) {
      if (!step.training || !request.long_name.starts_with(prefix)) return false;
      const std::string parameter = request.long_name.substr(prefix.size());
      if (!is_trainable(forward, parameter)) return false;
      anchors.push_back({parameter, stream, request.mode, request.period});
      return true;
    };
    if (of_parameter(kGradientPrefix, step.gradient_anchors)) continue;
    if (of_parameter(kUpdatedPrefix, step.update_anchors)) continue;
    if (step.training && step.loss_scaling.is_automatic && request.long_name == kFinalLossScale) {
      step.scaling_anchors.push_back({"", stream, request.mode, request.period});
      continue;
    }
    auto found = std::find_if(named.begin(), named.end(),
                              [&](const auto& entry) { return entry.name == request.long_name; });
    if (found == named.end()) raise_unknown(request, tensor_names(forward, step));
    ir::Value* value = value_of(forward, *found);
    ForwardGraph::Output output;
    output.name = stream;
    output.host_dtype = value->type().dtype;
    output.mode = request.mode;
    output.period = request.period;
    forward.graph->append_output(value);
    forward.outputs.push_back(std::move(output));
  }
}

}  // namespace ipu::frontends::torch_frontend
