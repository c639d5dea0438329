// The way through a step: what is checked, and where the ops that serve a value stand.
#include "frontends/common/step_builder.h"

#include <fmt/core.h>

#include "autodiff/in_graph.h"
#include "frontends/common/step_emitter.h"
#include "support/wording.h"

namespace ipu::frontends {

StepEmitter::StepEmitter(const ForwardGraph& forward, const StepOptions& options)
    : forward_(forward), options_(options), module_(*forward.graph->module()) {
  optimizers::Spec& spec = options_.optimizer;
  spec.accumulation = options.accumulation;
  spec.running_mean =
      options.mean_reduction && options.accumulation > 1 &&
      (spec.is_popart ? options.running_mean
                      : !spec.is_combined() && (options.running_mean || spec.accum_dtype == DType::kF16));
  spec.replicas = options.replicas;
  spec.running_mean_of_replicas =
      spec.is_popart && options.mean_reduction && options.running_mean && options.replicas > 1;
}

void StepEmitter::build() {
  check();
  plan_ = plan_stages(*forward_.graph, options_.places);
  if (options_.schedule == Schedule::kPhased) plan_phases(plan_, options_);
  if (!options_.training) options_.loss_scaling = {};
  if (scales_losses()) check_loss_scaling();
  check_pipeline_fill(plan_, options_);
  ir::set_strategy(strategy_of(plan_, options_), module_);
  is_pipelined_ = options_.schedule == Schedule::kPipelined && plan_.forward_stages > 1;
  for (size_t i = 0; i < plan_.blocks.size(); ++i) {
    stage_of_block_[plan_.blocks[i]] = plan_.stages[i];
    ipu_of_block_[plan_.blocks[i]] = plan_.ipus[i];
  }
  collect_variables();
  find_seed();
  if (options_.training) collect_training();
  if (scales_losses()) collect_loss_scaling();
  make_streams();
  emit_main();
  if (options_.has_forward_program) emit_forward_program();
  for (const auto& graph : module_.graphs()) autodiff::drop_custom_gradients(*graph);
}

void StepEmitter::check() const {
  IPU_CHECK(forward_.inputs.size() == forward_.graph->inputs().size(), "inputs are not described one by one");
  IPU_CHECK(options_.training || options_.accumulation == 1, "accumulation is for training");
  for (const ForwardGraph::Output& output : forward_.outputs)
    if (output.kind == ForwardGraph::Output::Kind::kHost) check_period(output.mode, output.period);
  for (const std::vector<StepOptions::Anchor>* anchors :
       {&options_.gradient_anchors, &options_.update_anchors, &options_.state_anchors,
        &options_.scaling_anchors})
    for (const StepOptions::Anchor& anchor : *anchors) check_period(anchor.mode, anchor.period);
  for (const StepOptions::ValueAnchor& anchor : options_.value_gradients)
    check_period(anchor.mode, anchor.period);
  check_locations();
}

void StepEmitter::check_locations() const {
  const std::pair<const char*, const TensorLocation*> families[] = {{"Weight", &options_.weights},
                                                                    {"Optimizer", &options_.optimizer_state},
                                                                    {"Accumulator", &options_.accumulators},
                                                                    {"Activation", &options_.activations}};
  for (const auto& [family, location] : families)
    if (location->needs_io_tiles() && options_.io_tiles == 0)
      throw worded(
          ErrorCode::kOption, "no_io_tiles",
          "no tiles for I/O: the location '{family}' has I/O tiles to {use}, and no tiles are reserved.",
          {{"family", family}, {"use", location->loads_io ? "Load" : "Store"}});
}

void StepEmitter::check_period(ir::OutputMode mode, int64_t period) const {
  if (mode != ir::OutputMode::kEveryN) return;
  const int64_t all =
      options_.device_iterations * (options_.counts_micro_batches ? options_.accumulation : 1);
  if (period >= 1 && all % period == 0) return;
  throw worded(
      ErrorCode::kOutputPeriod, "output_period",
      "output period does not fit: period {period} does not divide the {iterations} iterations of a run.",
      {{"period", period}, {"iterations", all}}, kPopartException);
}

StepEmitter::Home StepEmitter::home_of_op(const ir::Op& op) const {
  auto at = stage_of_block_.find(op.settings.block);
  return {at == stage_of_block_.end() ? plan_.blocks.front() : op.settings.block, op.location};
}

StepEmitter::Home StepEmitter::home_of_input(const Value& input) const {
  const ir::Op* best = nullptr;
  auto rank = [&](const ir::Op& op) {
    auto at = stage_of_block_.find(op.settings.block);
    return std::pair(at == stage_of_block_.end() ? int64_t{0} : at->second, op.id());
  };
  for (const ir::Use& use : input.uses())
    if (best == nullptr || rank(*use.user) < rank(*best)) best = use.user;
  return best != nullptr ? home_of_op(*best) : Home{plan_.blocks.front(), nullptr};
}

StepEmitter::Home StepEmitter::home_of_value(const Value& value) const {
  return value.producer() != nullptr ? home_of_op(*value.producer()) : home_of_input(value);
}

int StepEmitter::ipu_of(const Home& home) const {
  auto at = ipu_of_block_.find(home.block);
  return at == ipu_of_block_.end() ? 0 : static_cast<int>(at->second);
}

void StepEmitter::stand_at(ir::Builder& builder, const Home& home, ir::Context context) {
  builder.settings = {};
  builder.settings.block = home.block;
  builder.settings.context = context;
  builder.location = home.location;
}

void StepEmitter::overlap(ir::Builder& builder, ir::ExchangeStrategy exchange) {
  if (exchange == ir::ExchangeStrategy::kJustInTime) return;
  builder.settings.tile_set = ir::TileSet::kIo;
  builder.settings.exchange = exchange;
}

std::vector<const ir::Value*> StepEmitter::differentiated() const {
  std::vector<const ir::Value*> values;
  if (gradient_.graph == nullptr) return values;
  values.push_back(loss_);
  for (const auto& [value, gradient] : gradient_.gradients)
    if (value != loss_) values.push_back(value);
  return values;
}

std::vector<const ir::Value*> build_step(const ForwardGraph& forward, const StepOptions& options) {
  StepEmitter emitter(forward, options);
  emitter.build();
  return emitter.differentiated();
}

}  // namespace ipu::frontends
