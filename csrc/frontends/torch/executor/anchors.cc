#include "frontends/torch/executor/anchors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
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

// Elements of a stream of the program that one call returns.
int64_t items_of(const program::Program& p, const program::Stream& s) {
  switch (s.mode) {
    case program::StreamMode::kAll:
      return p.replicas * p.device_iterations * p.accumulation;
    case program::StreamMode::kEveryN:
      return p.replicas * p.accumulation * (p.device_iterations / s.period);
    default:
      return p.replicas;
  }
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

std::map<std::string, std::string> add_anchors(ForwardGraph& forward, StepOptions& step,
                                               const std::vector<AnchorRequest>& requests) {
  std::map<std::string, std::string> variables;
  if (requests.empty()) return variables;
  const std::vector<std::pair<std::string, ir::Value*>> named = named_values(forward);
  for (const AnchorRequest& request : requests) {
    const std::string stream = kAnchorPrefix + request.short_name;
    auto of_parameter = [&](const char* prefix) {
      return step.training && request.long_name.starts_with(prefix) &&
             is_trainable(forward, request.long_name.substr(std::string(prefix).size()));
    };
    if (of_parameter(kGradientPrefix)) {
      step.gradient_anchors.push_back({request.long_name.substr(std::string(kGradientPrefix).size()), stream,
                                       request.mode, request.period});
      continue;
    }
    if (of_parameter(kUpdatedPrefix)) {
      const std::string parameter = request.long_name.substr(std::string(kUpdatedPrefix).size());
      if (request.mode == ir::OutputMode::kFinal) {
        variables[request.short_name] = parameter;
      } else if (step.accumulation == 1) {
        step.update_anchors.push_back({parameter, stream, request.mode, request.period});
      } else {
        throw Error(ErrorCode::kAnchor,
                    "mode of an anchor: updated weights come once for " + std::to_string(step.accumulation) +
                        " micro-batches (Training.gradientAccumulation), so \"" + request.long_name +
                        "\" can be anchored with OutputMode.Final only");
      }
      continue;
    }
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
  return variables;
}

// --- the executor's side
// ----------------------------------------------------------------------------------------

void Executor::find_anchors() {
  if (!program_) return;
  for (size_t s = 0; s < program_->streams.size(); ++s) {
    const program::Stream& stream = program_->streams[s];
    if (!stream.name.starts_with(kAnchorPrefix)) continue;
    Anchor anchor;
    anchor.stream = static_cast<int>(s);
    anchor.items = items_of(*program_, stream);
    anchor.dtype = scalar_type(stream.host_dtype);
    anchor.shape.assign(stream.spec.shape.begin(), stream.spec.shape.end());
    if (!anchor.shape.empty()) {
      anchor.shape[0] *= anchor.items;
    } else if (anchor.items > 1) {
      anchor.shape.push_back(anchor.items);
    }
    anchors_[stream.name.substr(std::string(kAnchorPrefix).size())] = std::move(anchor);
  }
}

void Executor::bind_anchors() {
  for (auto& [name, anchor] : anchors_) {
    anchor.value = at::detail::empty_cpu(anchor.shape, anchor.dtype);
    bindings_[anchor.stream] = {static_cast<std::byte*>(anchor.value.mutable_data_ptr()), anchor.items};
  }
}

at::Tensor Executor::anchored(const std::string& short_name) {
  auto found = anchors_.find(short_name);
  if (found != anchors_.end()) return found->second.value;
  auto variable = anchored_variables_.find(short_name);
  if (variable == anchored_variables_.end() || !has_run_) return {};
  int index = -1;
  const program::Variable* v = find_variable(variable->second, &index);
  IPU_CHECK(v != nullptr, "the program has no variable " + variable->second);
  const TensorSpec plain = v->plain();
  at::Tensor t = at::empty(plain.shape, at::TensorOptions().dtype(scalar_type(plain.dtype)));
  loaded("reading an anchored tensor").read_variable(index, static_cast<std::byte*>(t.mutable_data_ptr()));
  return t;
}

}  // namespace ipu::frontends::torch_frontend
