#include "frontends/popart/model_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "frontends/popart/annotations.h"
#include "frontends/popart/forward_only.h"
#include "frontends/popart/placement.h"
#include "frontends/records/import.h"
#include "frontends/records/program.h"
#include "ir/builder.h"
#include "ir/node_marks.h"
#include "ir/tensor_names.h"
#include "ops/definition/build.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::popart {
namespace {

// Streams of anchors: inputs can be anchored, and have streams of their own.
constexpr const char* kAnchorStream = "anchor/";
constexpr std::string_view kGradient = ir::kGradientPrefix, kUpdated = ir::kUpdatedPrefix,
                           kRestored = ir::kRestoredPrefix;

bool is_state(std::string_view name) {
  for (const std::string_view prefix :
       {kAccumulated, "Accl___", "Accl1___", "Accl2___", "Accl3___", "Step___", kFinalGradient, kGlobalNorm})
    if (name.starts_with(prefix)) return true;
  return false;
}

// A tensor that the host gets and the model's own outputs: the program has as outputs what somebody asked for.
class Anchors {
 public:
  Anchors(const records::GraphRecord& graph, const SessionSettings& settings) : settings_(settings) {
    for (const auto& input : graph.inputs) known_inputs_.insert(input.name);
    known_ = known_inputs_;
    for (const auto& initialiser : graph.initialisers) known_.insert(initialiser.name);
    for (const auto& node : graph.nodes) known_.insert(node.results.begin(), node.results.end());
    known_.erase("");
    for (const Anchor& anchor : settings.anchors) sort(anchor);
  }

  // Names of what the forward pass itself gives.
  std::vector<std::string> forward() const {
    std::vector<std::string> names;
    for (const Anchor& anchor : forward_) names.push_back(anchor.tensor);
    return names;
  }

  // Names of what the host is to see the gradients of.
  std::vector<std::string> of_gradients() const {
    std::vector<std::string> names;
    for (const Anchor& anchor : gradients_) names.push_back(anchor.tensor.substr(kGradient.size()));
    return names;
  }

  void describe(ForwardGraph& forward) const {
    for (ForwardGraph::Output& output : forward.outputs) {
      if (output.kind != ForwardGraph::Output::Kind::kHost) continue;
      const auto at = std::find_if(forward_.begin(), forward_.end(), [&](const Anchor& anchor) {
        return kAnchorStream + anchor.tensor == output.name;
      });
      IPU_CHECK(at != forward_.end(), "an output that is no anchor");
      output.mode = at->mode;
      output.period = at->period;
      output.exchange = at->exchange;
    }
  }

  void add_to(StepOptions& step, const records::Imported& imported, const std::string& loss) const {
    for (const Anchor& anchor : gradients_) {
      const std::string name = anchor.tensor.substr(kGradient.size());
      const auto found = imported.values.find(name);
      if (found == imported.values.end()) {
        throw Error(
            ErrorCode::kAnchor,
            fmt::format(
                "unknown anchor: '{}' is the gradient of '{}', and no tensor on a differentiable path to "
                "the loss '{}' has that name.",
                quotation(anchor.tensor), quotation(name), quotation(loss)));
      }
      step.value_gradients.push_back(
          {found->second, kAnchorStream + anchor.tensor, anchor.mode, anchor.period});
    }
    for (const auto& [anchor, parameter] : updates_)
      step.update_anchors.push_back({parameter, kAnchorStream + anchor.tensor, anchor.mode, anchor.period});
    for (const Anchor& anchor : scalings_)
      step.scaling_anchors.push_back(
          {anchor.tensor, kAnchorStream + anchor.tensor, anchor.mode, anchor.period});
    for (const Anchor& anchor : states_)
      step.state_anchors.push_back(
          {anchor.tensor, kAnchorStream + anchor.tensor, anchor.mode, anchor.period});
  }

  // What a later stage reads again of an activation or of an input is that of the same micro-batch.
  void add_restored(records::Imported& imported) const {
    for (const Anchor& anchor : restored_) {
      const std::string name = anchor.tensor.substr(kRestored.size());
      const auto found = imported.values.find(name);
      ir::Value* value = found == imported.values.end() ? nullptr : found->second;
      if (value != nullptr && value->producer() == nullptr)
        value = known_inputs_.contains(name) ? copied(*imported.forward.graph, value) : nullptr;
      if (value == nullptr)
        throw Error(ErrorCode::kAnchor,
                    fmt::format("unknown anchor: '{}' restores no activation and no input of the model.",
                                quotation(anchor.tensor)));
      imported.forward.graph->append_output(value);
      ForwardGraph::Output& output = imported.forward.outputs.emplace_back();
      output.name = kAnchorStream + anchor.tensor;
      output.host_dtype = value->type().dtype;
      output.mode = anchor.mode;
      output.period = anchor.period;
    }
  }

 private:
  // A copy of an input, made where the input is read first.
  static ir::Value* copied(ir::Graph& graph, ir::Value* input) {
    ir::Builder builder(&graph);
    if (!input->uses().empty()) builder.settings = input->uses().front().user->settings;
    return ops::build(builder, "nop", {input});
  }

  void sort(const Anchor& anchor) {
    const std::string& name = anchor.tensor;
    const bool is_training = !settings_.loss.empty();
    if (is_training && name.starts_with(kGradient)) {
      gradients_.push_back(anchor);
    } else if (is_training && name.starts_with(kUpdated)) {
      updates_.emplace_back(anchor, name.substr(kUpdated.size()));
    } else if (is_training && settings_.step.loss_scaling.is_automatic &&
               (name == kFinalLossScale || name == kLossScaleFactor || name == kLossScalingStatistics)) {
      scalings_.push_back(anchor);
    } else if (is_training && is_state(name)) {
      states_.push_back(anchor);
    } else if (is_training && settings_.uses_stages && name.starts_with(kRestored)) {
      restored_.push_back(anchor);
    } else if (!known_.contains(name)) {
      unknown(name);
    } else if (settings_.step.optimizer.group_of.contains(name) && settings_.step.accumulation == 1) {
      updates_.emplace_back(anchor, name);  // its value after the update of the batch
    } else {
      forward_.push_back(anchor);
    }
  }

  [[noreturn]] void unknown(const std::string& name) const {
    std::string list;
    size_t count = 0;
    for (const std::string& tensor : known_)
      if (count++ < 20) list += (list.empty() ? "" : ", ") + quotation(tensor);
    throw Error(ErrorCode::kAnchor,
                fmt::format("unknown anchor: '{}' is no tensor of the program. The model has {}: {}{}.",
                            quotation(name), known_.size(), list, count > 20 ? ", ..." : ""));
  }

  const SessionSettings& settings_;
  std::set<std::string> known_, known_inputs_;
  std::vector<Anchor> forward_, gradients_, states_, restored_, scalings_;
  std::vector<std::pair<Anchor, std::string>> updates_;
};

}  // namespace

namespace {

// What automatic loss scaling counts, and in which type its factor is.
void complete(LossScaling& scaling, const SessionSettings& settings, const records::Imported& imported) {
  scaling.decides_first = true;
  scaling.factor_dtype = settings.keeps_loss_scaling_f32 ? DType::kF32 : imported.loss->type().dtype;
  for (const std::string& name : settings.tracked) {
    const auto found = imported.values.find(name);
    if (found == imported.values.end())
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "unknown tensor: automaticLossScalingSettings.toTrackTensors names '{}', and no tensor of "
              "the program has that name.",
              quotation(name)));
    scaling.tracked.push_back(found->second);
  }
}

// The batch in parts; what the session refers to stays, as the joined parts.
CutBatch serialize(records::Imported& imported, StepOptions& step, const BatchSerialization& how) {
  std::vector<std::pair<std::string, std::string>> others;  // name of a value, and another for the same
  for (const auto& [name, value] : imported.values)
    if (name != value->name()) others.emplace_back(value->name(), name);
  std::unordered_set<const ir::Value*> kept(step.loss_scaling.tracked.begin(),
                                            step.loss_scaling.tracked.end());
  for (const StepOptions::ValueAnchor& anchor : step.value_gradients) kept.insert(anchor.value);
  CutBatch batch = serialize_batch(imported.forward, how, step.places, kept);
  for (const auto& [name, other] : others) {
    if (const auto axis = batch.axes.find(name); axis != batch.axes.end()) batch.axes[other] = axis->second;
    for (CutBatch::Run& run : batch.runs) {
      if (run.whole.contains(name)) run.whole.insert(other);
      if (std::count(run.results.begin(), run.results.end(), name) > 0) run.results.push_back(other);
    }
  }
  const auto& gone = batch.gone;
  for (auto value = imported.values.begin(); value != imported.values.end();) {
    if (const auto at = gone.find(value->second); at != gone.end()) value->second = at->second;
    value = value->second == nullptr ? imported.values.erase(value) : std::next(value);
  }
  for (ir::Value*& value : step.loss_scaling.tracked)
    if (const auto at = gone.find(value); at != gone.end()) value = at->second;
  for (StepOptions::ValueAnchor& anchor : step.value_gradients)
    if (const auto at = gone.find(anchor.value); at != gone.end()) anchor.value = at->second;
  std::erase(step.loss_scaling.tracked, nullptr);
  return batch;
}

// The host gives nothing for an input that no operator reads, so its size does not matter.
void drop_unused_inputs(records::Imported& imported, const StepOptions& step) {
  std::unordered_set<const ir::Value*> wanted;
  for (const StepOptions::ValueAnchor& anchor : step.value_gradients) wanted.insert(anchor.value);
  std::vector<ForwardGraph::Input>& inputs = imported.forward.inputs;
  for (size_t i = inputs.size(); i-- > 0;) {
    const ir::Value* value = imported.forward.graph->inputs()[i];
    if (inputs[i].kind != ForwardGraph::Input::Kind::kHost || !value->is_unused() || wanted.contains(value))
      continue;
    imported.values.erase(inputs[i].name);
    imported.forward.graph->erase_input(static_cast<int>(i));
    inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Operators that are identities for the shapes they got leave no op. The program of a model of such alone copies
// what the first anchor of a result is.
void copy_an_input(const records::GraphRecord& graph, records::Imported& imported) {
  std::unordered_set<std::string> results;
  for (const records::NodeRecord& node : graph.nodes)
    results.insert(node.results.begin(), node.results.end());
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!results.contains(graph.outputs[i])) continue;
    ir::Graph& forward = *imported.forward.graph;
    ir::Builder builder(&forward);
    ir::Value* copy = ops::build(builder, "nop", {forward.outputs()[i]});
    forward.set_output(static_cast<int>(i), copy);
    imported.values[graph.outputs[i]] = copy;
    return;
  }
  throw Error(ErrorCode::kAnchor,
              "nothing to compute: no operator leads to an anchor. Anchor a result of the model.");
}

}  // namespace

ModelProgram::ModelProgram(records::ModelRecord model, SessionSettings settings)
    : settings_(std::move(settings)) {
  StepOptions step = settings_.step;
  take_annotations(model.graph, settings_);
  const Anchors anchors(model.graph, settings_);
  model.gradients = anchors.of_gradients();
  model.graph.outputs = anchors.forward();
  model.graph.output_prefix = kAnchorStream;
  step.places = place_nodes(model, settings_);
  step.pipeline_fill_is_checked = true;
  for (const auto& [block, place] : step.places) ipus_ = std::max(ipus_, place.ipu + 1);
  for (const records::NodeRecord& node : model.graph.nodes)
    if (const auto at = step.places.find(node.settings.block);
        at != step.places.end() && !node.results.empty())
      places_[node.results.front()] = at->second;
  records::Imported imported = records::import_model(model, settings_.loss, step.replicas);
  anchors.describe(imported.forward);
  // First values have a part for each group, and how many there are is said by the replicas.
  for (const ForwardGraph::Input& input : imported.forward.inputs)
    if (input.grouping.count(step.replicas) > 1)
      imported.module->attributes.set("replicas", static_cast<int64_t>(step.replicas));
  if (settings_.loss.empty() && imported.forward.graph->ops().empty()) copy_an_input(model.graph, imported);
  for (ForwardGraph::Input& input : imported.forward.inputs) {
    if (input.kind != ForwardGraph::Input::Kind::kHost) continue;
    inputs_.push_back(input.name);
    if (auto at = settings_.inputs.find(input.name); at != settings_.inputs.end())
      input.exchange = at->second;
  }
  step.counts_micro_batches = true;
  if (!settings_.loss.empty()) {
    records::check_loss(imported.loss, settings_.loss, /*may_be_integer=*/true);
    check_backward_pass(imported.loss);
    step.training = true;
    step.loss = imported.loss;
    if (step.loss_scaling.is_automatic) complete(step.loss_scaling, settings_, imported);
    anchors.add_to(step, imported, settings_.loss);
    anchors.add_restored(imported);
  }
  describe(imported.forward, imported.values, imported.constants);
  gone_ = std::move(imported.gone);
  drop_unused_inputs(imported, step);
  if (settings_.batch.parts > 1) batch_ = serialize(imported, step, settings_.batch);
  const std::vector<const ir::Value*> differentiated = build_step(imported.forward, step);
  const std::unordered_set<const ir::Value*> with_gradient(differentiated.begin(), differentiated.end());
  for (const auto& [name, value] : imported.values)
    if (with_gradient.contains(value))
      tensors_[std::string(kGradient) + name] = {value->type(), Tensor::Kind::kGradient};
  for (const ir::Variable& variable : imported.module->variables())
    if (variable.role == "optimizer_state")
      tensors_[variable.name] = {
          {variable.type.dtype, variable.shard_over > 1 ? variable.meta_shape : variable.type.shape},
          Tensor::Kind::kState};
  for (const ir::Stream& stream : imported.module->streams())
    if (stream.direction == ir::StreamDirection::kDeviceToHost)
      tensors_.try_emplace(stream.name.substr(std::string_view(kAnchorStream).size()),
                           Tensor{stream.type, Tensor::Kind::kGradient});
  if (settings_.recomputes_explicitly) imported.module->attributes.set(ir::kExplicitRecomputation, true);
  module_ = std::move(imported.module);
}

void ModelProgram::describe(const ForwardGraph& forward,
                            const std::unordered_map<std::string, ir::Value*>& values,
                            const std::unordered_map<std::string, ConstantPtr>& constants) {
  for (const auto& [name, constant] : constants)
    tensors_[name] = {{constant->dtype, constant->shape}, Tensor::Kind::kConstant};
  for (const auto& [name, value] : values)
    tensors_.try_emplace(name, Tensor{{}, Tensor::Kind::kResult}).first->second.type = value->type();
  for (size_t i = 0; i < forward.inputs.size(); ++i) {
    const ForwardGraph::Input& input = forward.inputs[i];
    const ir::Type& type = forward.graph->inputs()[i]->type();
    if (input.kind == ForwardGraph::Input::Kind::kHost)
      tensors_[input.name] = {{input.host_dtype, type.shape}, Tensor::Kind::kInput};
    else if (input.kind == ForwardGraph::Input::Kind::kVariable)
      tensors_[input.name] = {type, Tensor::Kind::kVariable};
  }
}

std::map<std::string, ModelProgram::ScaledState> ModelProgram::scaled_states() const {
  std::map<std::string, ScaledState> scaled;
  const optimizers::Spec& optimizer = settings_.step.optimizer;
  for (const auto& [weight, group] : optimizer.group_of)
    for (const optimizers::StateTensor& kept : optimizers::state_of(optimizer, group))
      if (const std::string name = optimizers::state_name(kept, weight);
          kept.of_weight != 0.0 && tensors_.contains(name))
        scaled[name] = {weight, kept.of_weight};
  return scaled;
}

std::unique_ptr<ir::Module> ModelProgram::module() const { return module_->clone(); }

}  // namespace ipu::frontends::popart
