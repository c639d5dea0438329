#include "frontends/torch/executor/anchors.h"

#include <algorithm>

#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::vector<std::pair<std::string, ir::Value*>> named_values(const ForwardGraph& forward) {
  std::vector<std::pair<std::string, ir::Value*>> named;
  for (size_t i = 0; i < forward.inputs.size(); ++i)
    named.emplace_back(forward.inputs[i].name, forward.graph->inputs()[i]);
  std::map<std::string, int> count;
  for (const auto& op : forward.graph->ops()) {
    std::string base = op->location ? op->location->module_path : "";
    std::replace(base.begin(), base.end(), '.', '/');
    base += (base.empty() ? "" : "/") + op->kind();
    const int n = count[base]++;
    if (n > 0) base += "__" + std::to_string(n);
    for (int r = 0; r < op->result_count(); ++r)
      named.emplace_back(base + ":" + std::to_string(r), op->result(r));
  }
  return named;
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

std::vector<std::string> tensor_names(const ForwardGraph& forward, bool training) {
  std::vector<std::string> names;
  for (const auto& [name, value] : named_values(forward)) names.push_back(name);
  if (!training) return names;
  for (const char* prefix : {kGradientPrefix, kUpdatedPrefix})
    for (const ForwardGraph::Input& input : forward.inputs)
      if (input.trainable) names.push_back(prefix + input.name);
  return names;
}

void add_anchors(ForwardGraph& forward, StepOptions& step, const std::vector<AnchorRequest>& requests) {
  if (requests.empty()) return;
  const std::vector<std::pair<std::string, ir::Value*>> named = named_values(forward);
  for (const AnchorRequest& request : requests) {
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
    auto found = std::find_if(named.begin(), named.end(),
                              [&](const auto& entry) { return entry.first == request.long_name; });
    if (found == named.end()) raise_unknown(request, tensor_names(forward, step.training));
    ForwardGraph::Output output;
    output.name = stream;
    output.host_dtype = found->second->type().dtype;
    output.mode = request.mode;
    output.period = request.period;
    forward.graph->append_output(found->second);
    forward.outputs.push_back(std::move(output));
  }
}

std::map<std::string, int> anchor_streams(const program::Program& program) {
  std::map<std::string, int> anchors;
  for (size_t s = 0; s < program.streams.size(); ++s)
    if (const std::string& name = program.streams[s].name; name.starts_with(kAnchorPrefix))
      anchors.emplace(name.substr(std::string(kAnchorPrefix).size()), static_cast<int>(s));
  return anchors;
}

}  // namespace ipu::frontends::torch_frontend
