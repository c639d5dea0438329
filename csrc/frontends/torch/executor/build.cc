// From a captured graph to a program.
#include <algorithm>
#include <set>

#include "frontends/torch/capture/annotations/annotations.h"
#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/back_end_form.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/executor/overlap_marks.h"
#include "frontends/torch/executor/signature.h"
#include "passes/pass.h"
#include "support/interruption.h"
#include "support/log.h"
#include "target/system.h"

namespace ipu::frontends::torch_frontend {
namespace {

// The new value of a running statistic, as an operator of normalisation gives it.
bool is_new_statistic(const ir::Value* value) {
  const ir::Op* op = value->producer();
  while (op != nullptr && (op->is("cast") || op->is("detach") || op->is("straight_through"))) {
    value = op->operand(op->is("straight_through") ? 1 : 0);
    op = value->producer();
  }
  return op != nullptr && (op->is("batch_norm") || op->is("instance_norm"));
}

// Replicas that are fed different inputs compute different values for a buffer that forward writes. Each keeps
// its own running statistics.
void check_buffers(const Captured& captured, const CompileSettings& s) {
  if (!s.broadcast_buffers || s.compile.input_groups.count(s.compile.replicas) == 1) return;
  for (const StateSpec& state : captured.states) {
    if (state.output < 0 || state.is_statistic) continue;
    if (is_new_statistic(captured.graph->outputs()[static_cast<size_t>(state.output)])) continue;
    throw Error(ErrorCode::kCapture,
                std::string("buffers cannot be broadcast: forward writes the ") +
                    (state.is_parameter ? "parameter '" : "buffer '") + state.name + "' in place, and " +
                    std::to_string(s.compile.input_groups.count(s.compile.replicas)) +
                    " groups of replicas with inputs of their own would each write another value.\n"
                    "  try:      Options.broadcastBuffers(False): each replica keeps its own value, and one "
                    "of them is read back");
  }
}

// `return out, 3 * loss`: the factor is not seen by the gradient.
void warn_of_what_follows(const ir::Value& loss) {
  const auto described = [](const ir::Op& op) {
    return "'" + op.kind() + "' at " + ir::to_string(op.location);
  };
  if (const ir::Op* reader = reader_of_loss(loss); reader != nullptr)
    log(LogLevel::kWarn, "The value that is trained on is " + described(*loss.producer()) +
                             ". What forward computes from it, " + described(*reader) +
                             ", does not change the gradients. To train on that value, wrap it in "
                             "poptorch.identity_loss(value, reduction=\"none\").");
}

// What is printed must be used, as published: otherwise the op is not part of the program.
void drop_unused_prints(ir::Graph& graph) {
  std::vector<ir::Op*> unused;
  for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at)
    if ((*at)->is("print_tensor") && (*at)->result()->uses().empty() && !(*at)->result()->is_output())
      unused.push_back((*at).get());
  for (ir::Op* op : unused) graph.erase(op);
}

// A print without a title says which tensor it shows.
void name_prints(const ForwardGraph& forward) {
  std::vector<ir::Op*> unnamed;
  for (const auto& op : forward.graph->ops())
    if (op->is("print_tensor") && op->attributes.text("title", "").empty()) unnamed.push_back(op.get());
  if (unnamed.empty()) return;
  const ForwardNames names = forward_names(forward);
  for (ir::Op* op : unnamed) op->attributes.set("title", names.of.at(op->operand(0)));
}

// IPUs of one replica that the blocks of the model name.
int placed_ipus(const ir::Graph& graph, const std::map<std::string, StepOptions::Placement>& places) {
  std::set<int> used;
  for (const auto& op : graph.ops())
    if (auto at = places.find(op->settings.block); at != places.end()) used.insert(at->second.ipu);
  return used.empty() ? 1 : std::max(static_cast<int>(used.size()), *used.rbegin() + 1);
}

// Options.setAvailableMemoryProportion: what the products of an IPU may take, gradients as their forward ops.
void share_memory(ir::Module& module, const CompileSettings& settings) {
  if (settings.available_memory.empty()) return;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      if (op->settings.available_memory || !Annotations::takes_memory_hint(*op)) continue;
      const auto place = settings.step.places.find(op->settings.block);
      const int ipu = place == settings.step.places.end() ? 0 : place->second.ipu;
      if (const auto share = settings.available_memory.find(ipu); share != settings.available_memory.end())
        op->settings.available_memory = share->second;
    }
}

constexpr int kOfflineIpus = 16;

// The attached machine, or the first one of the version that is compiled for offline.
const target::System& target_system(const CompileSettings& settings) {
  if (settings.offline_ipu_version == 0) return target::attached_system();
  for (const std::string& name : target::system_names()) {
    const target::System& system = target::find_system(name);
    if (system.ipu_version == settings.offline_ipu_version && system.num_ipus >= kOfflineIpus) return system;
  }
  throw Error(ErrorCode::kEnvironment,
              "unknown IPU version: " + std::to_string(settings.offline_ipu_version) + "; 1, 2 or 21");
}

}  // namespace

executable::Executable Executor::build(Captured& captured, const CompileSettings& settings) {
  IPU_CHECK(captured.module != nullptr, "a captured graph is compiled once");
  check_buffers(captured, settings);
  drop_unused_prints(*captured.graph);
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
    i.trainable = settings.step.training && s->trainable;
    i.is_parameter = s->is_parameter;
    if (auto at = settings.groupings.find(s->name); at != settings.groupings.end()) {
      i.grouping = at->second.groups;
      i.retrieval = at->second.all_replicas ? ir::Retrieval::kAllReplicas : ir::Retrieval::kOnePerGroup;
    }
    forward.inputs.push_back(i);
  }
  if (captured.seed_input >= 0) {
    ForwardGraph::Input i;
    i.kind = ForwardGraph::Input::Kind::kSeed;
    forward.inputs.push_back(i);
  }
  for (int k = 0; k < captured.host_outputs; ++k) {
    ForwardGraph::Output o;
    o.name = output_stream(k);
    o.host_dtype = captured.graph->outputs()[k]->type().dtype;
    bool is_mutated = std::any_of(captured.mutated_inputs.begin(), captured.mutated_inputs.end(),
                                  [&](const MutatedInput& m) { return m.output == k; });
    o.mode = is_mutated ? ir::OutputMode::kAll : settings.output_mode;
    o.period = settings.output_period;
    o.times_returned =
        static_cast<int>(std::count_if(captured.outputs.begin(), captured.outputs.end(),
                                       [&](const OutputSpec& output) { return output.index == k; }));
    forward.outputs.push_back(o);
  }
  for (const StateSpec* s : written) {
    ForwardGraph::Output o;
    o.kind = ForwardGraph::Output::Kind::kState;
    o.name = s->name;
    forward.outputs.push_back(o);
  }

  StepOptions step = settings.step;
  take_overlap_marks(forward, step);
  if (step.training) {
    step.loss = find_final_loss(*captured.graph, static_cast<int>(captured.inputs.size()));
    warn_of_what_follows(*step.loss);
  }
  step.replicas = settings.compile.replicas * settings.compile.processes;
  step.replicas_of_process = settings.compile.replicas;
  for (const auto& [block, place] : step.places)
    log(LogLevel::kDebug,
        "block '" + block + "': stage " + std::to_string(place.stage) + ", IPU " + std::to_string(place.ipu));
  share_memory(*captured.module, settings);
  name_prints(forward);
  tensor_names_ = torch_frontend::tensor_names(forward, step);
  log_graph(forward, step);
  add_anchors(forward, step, settings.anchors, {"", "", settings.output_mode, settings.output_period});
  passes::dump(*captured.module, "at:Captured");
  executable::check_ipu_count(placed_ipus(*captured.graph, step.places),
                              settings.compile);  // before it is filled
  build_step(forward, step);
  back_end_ = std::make_unique<const BackEndSource>(
      forward, step, PartialsTypes{settings.product_partials, settings.convolution_partials},
      target_system(settings));
  log_description(forward);

  poll_interruption();

  executable::CacheOptions cache = settings.cache;
  cache.front_end = "device_iterations=" + std::to_string(step.device_iterations) +
                    " accumulation=" + std::to_string(step.accumulation);
  cache.objection = [&](const program::Program& program) { return objection(captured, settings, program); };
  executable::Executable executable =
      executable::compile_cached(*captured.module, target_system(settings), settings.compile, cache);
  captured.module.reset();
  captured.graph = nullptr;
  return executable;
}

// The names of what the optimizer made, and what the log says of the program.
void Executor::log_description(const ForwardGraph& forward) {
  for (const ir::Variable& variable : forward.graph->module()->variables())
    if (variable.role == "optimizer_state") tensor_names_.push_back(variable.name);
  if (log_enabled(LogLevel::kDebug)) log(LogLevel::kDebug, "Popart IR: " + back_end_->form().json());
  log_backend("popart", LogLevel::kTrace, "a forward graph was read");
  if (backend_log_enabled(LogLevel::kInfo))
    log_backend("ir", LogLevel::kInfo,
                "the main graph has " + std::to_string(back_end_->form().operations.size()) + " operations");
  if (backend_log_enabled(LogLevel::kDebug))
    for (const std::string& block : back_end_->form().dump()) log_backend("ir", LogLevel::kDebug, block);
  log_backend("session", LogLevel::kTrace, "preparing a session");
}

const BackEndForm& Executor::form() const {
  static const BackEndForm none;
  return back_end_ == nullptr ? none : back_end_->form();
}

Executor::Executor(Captured& captured, const CompileSettings& settings) {
  ErrorContext activity("compiling the model");
  const std::string graph = graph_digest(captured);
  // A model whose outputs are all known on the host needs no device.
  bool device = settings.step.training || captured.host_outputs > 0 ||
                std::any_of(captured.states.begin(), captured.states.end(),
                            [](const StateSpec& s) { return s.written; });
  executable::Executable executable;
  if (device)
    executable = build(captured, settings);
  else
    executable.ipus_reserved = 0;
  executable.is_dry = settings.compile.is_dry;
  signature_ = make_signature(captured, settings, executable);
  signature_.graph = graph;
  bind_signature(std::move(executable));
}

Executor::Executor(executable::Executable executable, executable::Signature signature)
    : signature_(std::move(signature)) {
  bind_signature(std::move(executable));
}

}  // namespace ipu::frontends::torch_frontend
