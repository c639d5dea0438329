// From a captured graph to a program, and the table of what each stream of the program is bound to.
#include <algorithm>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "support/log.h"
#include "target/system.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string output_stream(int index) { return "output." + std::to_string(index); }

// Items of an output that come back from one call (the table of output modes).
int64_t items_of(const CompileSettings& s, ir::OutputMode mode) {
  switch (mode) {
    case ir::OutputMode::kAll:
      return s.replicas * s.device_iterations * s.accumulation;
    case ir::OutputMode::kEveryN:
      return s.replicas * s.accumulation * (s.device_iterations / s.output_period);
    case ir::OutputMode::kFinal:
    case ir::OutputMode::kSum:
      return s.replicas;
  }
  return 1;
}

// A scalar becomes a vector of items when there are several; otherwise dimension 0 is multiplied.
std::vector<int64_t> whole_shape(std::vector<int64_t> shape, int64_t items) {
  if (!shape.empty())
    shape[0] *= items;
  else if (items > 1)
    shape.push_back(items);
  return shape;
}

}  // namespace

void Executor::build(Captured& captured, const CompileSettings& settings) {
  IPU_CHECK(captured.module != nullptr, "a captured graph is compiled once");
  ForwardGraph forward;
  forward.graph = captured.graph;
  for (const InputSpec& input : captured.inputs) {
    ForwardGraph::Input i;
    i.name = input.name;
    i.host_dtype = *host_dtype(input.dtype);
    forward.inputs.push_back(i);
  }
  std::vector<const StateSpec*> states, written;
  for (const StateSpec& s : captured.states) {
    if (s.input >= 0) states.push_back(&s);
    if (s.output >= 0) written.push_back(&s);
  }
  std::sort(states.begin(), states.end(), [](auto* a, auto* b) { return a->input < b->input; });
  std::sort(written.begin(), written.end(), [](auto* a, auto* b) { return a->output < b->output; });
  for (const StateSpec* s : states) {
    ForwardGraph::Input i;
    i.kind = ForwardGraph::Input::Kind::kVariable;
    i.name = s->name;
    i.trainable = settings.training && s->trainable;
    forward.inputs.push_back(i);
    variable_of_[s->name] = s->name;
  }
  for (int k = 0; k < captured.host_outputs; ++k) {
    ForwardGraph::Output o;
    o.name = output_stream(k);
    o.host_dtype = captured.graph->outputs()[k]->type().dtype;
    bool is_mutated = std::any_of(captured.mutated_inputs.begin(), captured.mutated_inputs.end(),
                                  [&](const MutatedInput& m) { return m.output == k; });
    o.mode = is_mutated ? ir::OutputMode::kAll : settings.output_mode;
    o.period = settings.output_period;
    forward.outputs.push_back(o);
  }
  for (const StateSpec* s : written) {
    ForwardGraph::Output o;
    o.kind = ForwardGraph::Output::Kind::kState;
    o.name = s->name;
    forward.outputs.push_back(o);
  }

  StepOptions step;
  step.training = settings.training;
  if (settings.training) step.loss = find_final_loss(*captured.graph);
  step.optimizer = settings.optimizer;
  step.mean_reduction = settings.mean_reduction;
  step.device_iterations = settings.device_iterations;
  step.accumulation = settings.accumulation;
  step.replicas = settings.replicas;
  step.schedule = settings.schedule;
  step.places = settings.places;
  for (const auto& [block, place] : settings.places)
    log(LogLevel::kDebug,
        "block '" + block + "': stage " + std::to_string(place.stage) + ", IPU " + std::to_string(place.ipu));
  build_step(forward, step);

  executable::CompileOptions options;
  options.replicas = settings.replicas;
  options.device_iterations = settings.device_iterations;
  options.accumulation = settings.accumulation;
  options.auto_round_num_ipus = settings.auto_round_num_ipus;
  executable_ = executable::compile(*captured.module, target::attached_system(), options);
  program_ = executable_.program;
  captured.module.reset();
  captured.graph = nullptr;
}

int Executor::find_stream(const std::string& name) const {
  for (size_t i = 0; i < program_->streams.size(); ++i) {
    if (program_->streams[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

void Executor::prepare_streams(const Captured& captured, const CompileSettings& settings) {
  int64_t micro_batches = settings.replicas * settings.device_iterations * settings.accumulation;
  for (const InputSpec& spec : captured.inputs) {
    Input input;
    input.name = spec.name;
    input.shape = spec.shape;
    if (!input.shape.empty()) input.shape[0] *= micro_batches;
    input.dtype = spec.dtype;
    input.stream_dtype = spec.dtype == at::kBFloat16 ? at::kFloat : spec.dtype;
    input.items = micro_batches;
    int stream = program_ ? find_stream(spec.name) : -1;
    if (stream >= 0) input.streams.push_back(stream);
    inputs_.push_back(std::move(input));
  }
  std::vector<int> first_with(static_cast<size_t>(std::max(captured.host_outputs, 0)), -1);
  for (const OutputSpec& spec : captured.outputs) {
    Output output;
    if (spec.index < 0) {
      output.constant = spec.constant;
    } else {
      output.items = items_of(settings, settings.output_mode);
      output.shape = whole_shape(spec.shape, output.items);
      output.dtype = spec.dtype;
      output.stream = find_stream(output_stream(spec.index));
      IPU_CHECK(output.stream >= 0, "the program has no stream " + output_stream(spec.index));
      int& first = first_with[spec.index];
      if (first >= 0)
        output.same_as = first;
      else
        first = static_cast<int>(outputs_.size());
    }
    outputs_.push_back(std::move(output));
  }
  for (const MutatedInput& m : captured.mutated_inputs) {
    Mutated mutated;
    mutated.input = m.input;
    mutated.output.items = micro_batches;
    mutated.output.shape = inputs_[m.input].shape;
    mutated.output.stream = find_stream(output_stream(m.output));
    IPU_CHECK(mutated.output.stream >= 0, "the program has no stream " + output_stream(m.output));
    mutated.output.dtype = scalar_type(program_->streams[mutated.output.stream].host_dtype);
    mutated_.push_back(std::move(mutated));
  }
  if (!program_) return;
  bindings_.resize(program_->streams.size());
  for (size_t g = 0; g < optimizer_.groups.size(); ++g) {
    for (const auto& [name, hyper] : optimizer_.groups[g].hyper) {
      int stream = find_stream(optimizers::stream_name(static_cast<int>(g), name));
      if (stream >= 0) hypers_.push_back({stream, static_cast<int>(g), name});
    }
  }
  int scaling = find_stream(optimizers::stream_name(0, "loss_scaling"));
  if (scaling >= 0) hypers_.push_back({scaling, -1, "loss_scaling"});
  hyper_values_.resize(hypers_.size());
  bind_hypers();
}

void Executor::bind_hypers() {
  for (size_t i = 0; i < hypers_.size(); ++i) {
    const HyperStream& h = hypers_[i];
    double value =
        h.group < 0 ? optimizer_.loss_scaling.value : optimizer_.groups[h.group].hyper.at(h.name).value;
    hyper_values_[i] = static_cast<float>(value);
    bindings_[h.stream] = {reinterpret_cast<std::byte*>(&hyper_values_[i]), 1};
  }
}

Executor::Executor(Captured& captured, const CompileSettings& settings) : optimizer_(settings.optimizer) {
  // A model whose outputs are all known on the host needs no device.
  bool device = settings.training || captured.host_outputs > 0 ||
                std::any_of(captured.states.begin(), captured.states.end(),
                            [](const StateSpec& s) { return s.written; });
  if (device)
    build(captured, settings);
  else
    executable_.ipus_reserved = 0;
  prepare_streams(captured, settings);
}

}  // namespace ipu::frontends::torch_frontend
