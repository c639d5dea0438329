// Rewrites a `pipeline` op to one loop over cycles. Each stage is some cycles behind the first, by the
// schedule: its delay. The body holds an `if` for each stage, taken while the stage has a micro-batch (delay
// <= cycle < delay + micro-batches). What one stage hands to another goes through a ring: a stash on one IPU,
// a channel between two. Stages stand in the order of falling delay, so that run one after another a consumer
// takes what was made in an earlier cycle; stages of equal delay stand in their own order (docs/ir.md,
// "pipeline"). Not here: choosing stages (place), copies of weights used on several IPUs (insert-ipu-copies).
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "ops/replicable.h"
#include "passes/pass.h"
#include "support/error.h"

namespace ipu::passes {
namespace {

using ir::Value;

// One pipeline op on its way. The body is a graph (i32[] micro-batch, carried..., invariant...) →
// (carried...).
class Rewrite {
 public:
  Rewrite(ir::Op& op, ir::Graph& body)
      : op_(op),
        pipeline_(op),
        body_(body),
        module_(*body.module()),
        carried_(pipeline_.carried()),
        micro_batches_(op.attributes.integer("micro_batches")),
        index_(body.inputs()[pipeline_.index_input()]),
        replicable_(ops::find_replicable(body, index_)) {
    IPU_CHECK(static_cast<int>(body.inputs().size()) == pipeline_.first_flow_input() &&
                  static_cast<int>(body.outputs().size()) == carried_,
              fmt::format("@{} does not fit its pipeline", body.name()));
  }

  // Leaves the pipeline op in place, unused.
  void run(const PassContext& context) {
    find_stages();
    find_carried_homes();
    find_delays();
    find_flows();
    std::vector<StageGraph> stages(stage_count_);
    for (const auto& [stage, ops] : ops_of_stage_) build_stage(stage, ops, stages[stage]);
    build_loop(stages);
    context.count("stages", static_cast<int64_t>(ops_of_stage_.size()));
    context.count("rings", ring_count_);
  }

  // The results of the loop take over the names of the pipeline's, which must be gone.
  void take_over_names() {
    for (const auto& [value, name] : names_) value->graph()->rename(value, name);
  }

 private:
  struct StageGraph {
    ir::Graph* graph = nullptr;  // nullptr: nothing to do in this stage
    bool reads_index = false;    // input 0 is the micro-batch, if so
    std::vector<int> carried;    // then these carried values, which are also its outputs
    std::vector<int> inputs;     // then these invariants; numbers of the body's inputs
  };
  struct Hop {  // a value handed from one stage to a later one
    int from, to;
    ir::Ring* ring;
  };

  bool is_everywhere(const Value* value) const {
    if (replicable_.contains(value)) return true;
    if (value->producer() != nullptr) return false;
    const int operand = pipeline_.operand(value->index());
    return pipeline_.is_invariant(operand) || is_unchanged(operand);
  }
  // A carried value the body returns as it came is an invariant.
  bool is_unchanged(int carried) const {
    return pipeline_.is_carried(carried) && next_value(carried) == carried_input(carried);
  }
  int stage_of(const Value* value) const {
    return value->producer() != nullptr ? stage_.at(value->producer())
                                        : home_.at(pipeline_.operand(value->index()));
  }
  Value* carried_input(int carried) const { return body_.inputs()[pipeline_.input(carried)]; }
  Value* next_value(int carried) const { return body_.outputs()[pipeline_.output(carried)]; }

  // --- stages of ops

  void find_stages() {
    for (const auto& op : body_.ops())
      if (op->settings.stage.has_value() && op->settings.ipu.has_value())
        ipu_.try_emplace(*op->settings.stage, *op->settings.ipu);
    // Ops without a stage of their own follow their operands; those without operands, their users.
    std::vector<ir::Op*> undecided;
    for (const auto& op : body_.ops()) {
      if (is_replicated(*op)) continue;
      int latest = -1;
      for (int i = 0; i < op->operand_count(); ++i) {
        const Value* operand = op->operand(i);
        if (operand == nullptr || operand->producer() == nullptr || is_everywhere(operand)) continue;
        auto at = stage_.find(operand->producer());
        if (at != stage_.end()) latest = std::max(latest, at->second);
      }
      if (!op->settings.stage.has_value() && latest < 0) {
        undecided.push_back(op.get());
        continue;
      }
      int stage = op->settings.stage.value_or(latest);
      if (stage < latest) {
        if (op->settings.context == ir::Context::kForward) going_back(*op, latest);
        stage = latest;  // a sum of gradients waits for the last of them
      }
      stage_[op.get()] = stage;
    }
    for (auto at = undecided.rbegin(); at != undecided.rend(); ++at) {
      int earliest = INT32_MAX;
      for (int i = 0; i < (*at)->result_count(); ++i)
        for (const ir::Use& use : (*at)->result(i)->uses())
          if (auto user = stage_.find(use.user); user != stage_.end())
            earliest = std::min(earliest, user->second);
      stage_[*at] = earliest == INT32_MAX ? 0 : earliest;
    }
    for (const auto& op : body_.ops()) {
      auto at = stage_.find(op.get());
      if (at == stage_.end()) continue;
      ops_of_stage_[at->second].push_back(op.get());
      ipu_.try_emplace(at->second, op->settings.ipu.value_or(0));
    }
    stage_count_ = ops_of_stage_.empty() ? 0 : ops_of_stage_.rbegin()->first + 1;
  }

  bool is_replicated(const ir::Op& op) const {
    return op.result_count() > 0 && replicable_.contains(op.result(0));
  }

  [[noreturn]] static void going_back(const ir::Op& op, int latest) {
    throw Error(
        ErrorCode::kStageOrder,
        fmt::format("pipeline stage going back: '{}' at {} is in stage {} and reads a value of stage {}. "
                    "Move it to a block of that stage or a later one.",
                    op.kind(), ir::to_string(op.location), *op.settings.stage, latest))
        .at(ir::user_line(op.location));
  }

  // --- carried values

  void find_carried_homes() {
    home_.assign(carried_, 0);
    for (int i = 0; i < carried_; ++i) {
      if (is_unchanged(i)) continue;
      const Value* next = next_value(i);
      int first_read = INT32_MAX;
      for (const ir::Use& use : carried_input(i)->uses())
        first_read = std::min(first_read, stage_.at(use.user));
      const int written =
          next->producer() == nullptr || is_everywhere(next) ? 0 : stage_.at(next->producer());
      home_[i] = first_read == INT32_MAX ? written : first_read;
      if (written > home_[i])
        throw Error(
            ErrorCode::kStageOrder,
            fmt::format(
                "pipeline stage going back: state '{}' is read in stage {} "
                "and gets its new value in stage {} at {}, when later micro-batches have been there already. "
                "Read and write it in one block.",
                carried_input(i)->name(), home_[i], written, ir::to_string(next->producer()->location)))
            .at(ir::user_line(next->producer()->location));
      // A stage may exist only to take over state.
      ops_of_stage_.try_emplace(home_[i]);
      ipu_.try_emplace(home_[i], ipu_.empty() ? 0 : ipu_.begin()->second);
      stage_count_ = std::max(stage_count_, home_[i] + 1);
    }
  }

  // --- schedule

  // grouped: in each cycle every stage runs, each one micro-batch behind the one before it.
  // sequential: a micro-batch goes through all stages before the next one starts.
  // interleaved: a cycle has two slots, in which an IPU runs a forward and a backward stage. Of F forward
  // stages, stage s < F runs in slot s, its backward stage in slot 2F - 1 - s; so F - s micro-batches are
  // under way between the two instead of 2(F - s) - 1. Without backward stages it is the same as grouped.
  void find_delays() {
    const Attribute* named = op_.attributes.find("schedule");
    const std::string schedule = named == nullptr ? "grouped" : std::get<std::string>(*named);
    bool has_backward = false;
    for (const auto& [op, stage] : stage_) has_backward |= op->settings.context == ir::Context::kBackward;
    const bool interleaves = schedule == "interleaved" && has_backward && stage_count_ % 2 == 1;
    const int forward = (stage_count_ + 1) / 2;
    for (int stage = 0; stage < stage_count_; ++stage) {
      if (schedule == "sequential")
        delay_.push_back(0);
      else if (interleaves)
        delay_.push_back((stage < forward ? stage : stage + 1) / 2);
      else
        delay_.push_back(stage);
    }
  }
  int last_delay() const { return delay_.empty() ? 0 : delay_.back(); }

  // --- what flows

  void find_flows() {
    std::map<std::pair<int, int>, const Value*> order;  // (stage, position) → value, for deterministic rings
    std::unordered_map<const Value*, std::set<int>> readers;
    int position = 0;
    auto note = [&](const Value* value, int stage) {
      if (is_everywhere(value) || value == index_) return;
      const int made = stage_of(value);
      IPU_CHECK(stage >= made, fmt::format("%{} flows back in @{}", value->name(), body_.name()));
      if (stage == made) return;
      auto [at, is_new] = readers.try_emplace(value);
      if (is_new) order[{made, position++}] = value;
      at->second.insert(stage);
    };
    for (const auto& op : body_.ops()) {
      auto at = stage_.find(op.get());
      if (at == stage_.end()) continue;
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr) note(op->operand(i), at->second);
    }
    for (int i = 0; i < carried_; ++i)
      if (!is_unchanged(i)) note(next_value(i), home_[i]);

    for (const auto& [key, value] : order) {
      // On each IPU the first stage that needs the value gets it from its maker, the next ones from that
      // stage.
      std::map<int, int> holder{{ipu_.at(key.first), key.first}};
      for (int stage : readers.at(value)) {
        const int ipu = ipu_.at(stage);
        auto [at, is_first] = holder.try_emplace(ipu, key.first);
        const int from = at->second;
        at->second = stage;
        ir::Ring ring;
        ring.name = fmt::format("{}.{}_{}", value->name(), from, stage);
        ring.type = value->type();
        ring.capacity = delay_[stage] - delay_[from] + 1;
        ring.from_ipu = ipu_.at(from);
        ring.to_ipu = ipu;
        hops_[value].push_back({from, stage, &module_.add_ring(std::move(ring))});
        ++ring_count_;
      }
    }
  }

  // --- stage graphs

  // Builds one stage graph: values of the body → values of the stage.
  struct Emitter {
    Rewrite& rewrite;
    int stage;
    StageGraph& out;
    ir::Builder builder;
    std::unordered_map<const Value*, Value*> values;

    void push_on(const Value* value, Value* here) {
      auto at = rewrite.hops_.find(value);
      if (at == rewrite.hops_.end()) return;
      for (const Hop& hop : at->second) {
        if (hop.from != stage) continue;
        stand(value->producer());
        builder.push(*hop.ring, here);
      }
    }

    void stand(const ir::Op* op) {
      builder.settings = op != nullptr ? op->settings : ir::Settings{};
      builder.settings.stage = stage;
      builder.settings.ipu = rewrite.ipu_.at(stage);
      builder.location = op != nullptr ? op->location : nullptr;
    }

    // A value of the body as this stage sees it. Values of earlier stages are taken from their ring at first
    // use.
    Value* get(Value* value) {
      if (auto at = values.find(value); at != values.end()) return at->second;
      Value* here = nullptr;
      if (rewrite.replicable_.contains(value)) {
        const ir::Op& op = *value->producer();
        std::vector<Value*> operands;
        for (int i = 0; i < op.operand_count(); ++i)
          operands.push_back(op.operand(i) == nullptr ? nullptr : get(op.operand(i)));
        ir::Op* copy = out.graph->copy(op, operands);
        copy->settings.stage = stage;
        copy->settings.ipu = rewrite.ipu_.at(stage);
        for (int i = 0; i < op.result_count(); ++i) values[op.result(i)] = copy->result(i);
        return values.at(value);
      }
      for (const Hop& hop : rewrite.hops_.at(value)) {
        if (hop.to != stage) continue;
        stand(value->producer());
        here = builder.pop(*hop.ring);
      }
      IPU_CHECK(here != nullptr, fmt::format("no ring brings %{} to stage {}", value->name(), stage));
      values[value] = here;
      push_on(value, here);
      return here;
    }
  };

  // Numbers of the body's inputs, in order.
  std::vector<int> invariants_read(const std::vector<ir::Op*>& ops, const std::vector<int>& carried) const {
    std::set<int> read;
    auto note = [&](const Value* value) {
      if (value != nullptr && value->producer() == nullptr && value != index_ && is_everywhere(value))
        read.insert(value->index());
    };
    for (const ir::Op* op : ops)
      for (int i = 0; i < op->operand_count(); ++i) note(op->operand(i));
    for (int i : carried) note(next_value(i));
    return {read.begin(), read.end()};
  }

  void build_stage(int stage, const std::vector<ir::Op*>& ops, StageGraph& out) {
    out.graph = module_.add_graph(fmt::format("{}_stage{}", body_.name(), stage));
    Emitter emitter{*this, stage, out, ir::Builder(out.graph), {}};
    const std::vector<Value*>& inputs = body_.inputs();
    emitter.values[index_] = out.graph->add_input(index_->type(), index_->name());
    for (int i = 0; i < carried_; ++i)
      if (home_[i] == stage && !is_unchanged(i)) out.carried.push_back(i);
    for (int i : out.carried)
      emitter.values[carried_input(i)] =
          out.graph->add_input(carried_input(i)->type(), carried_input(i)->name());
    out.inputs = invariants_read(ops, out.carried);
    for (int i : out.inputs)
      emitter.values[inputs[i]] = out.graph->add_input(inputs[i]->type(), inputs[i]->name());
    for (int i : out.carried) emitter.push_on(carried_input(i), emitter.values[carried_input(i)]);
    for (const ir::Op* op : ops) {
      std::vector<Value*> operands;
      for (int i = 0; i < op->operand_count(); ++i)
        operands.push_back(op->operand(i) == nullptr ? nullptr : emitter.get(op->operand(i)));
      ir::Op* copy = out.graph->copy(*op, operands);
      copy->settings.stage = stage;
      if (copy->settings.ipu.has_value()) copy->settings.ipu = ipu_.at(stage);
      for (int i = 0; i < op->result_count(); ++i) {
        emitter.values[op->result(i)] = copy->result(i);
        emitter.push_on(op->result(i), copy->result(i));
      }
    }
    for (int i : out.carried) out.graph->append_output(emitter.get(next_value(i)));
    out.reads_index = !out.graph->inputs()[0]->is_unused();
    if (!out.reads_index) out.graph->erase_input(0);
  }

  // --- the loop

  Value* integer(ir::Builder& builder, int64_t value) {
    return builder.scalar(DType::kI32, static_cast<double>(value));
  }

  void build_loop(const std::vector<StageGraph>& stages) {
    std::vector<int> carried, invariant;
    std::set<int> used;
    for (const StageGraph& stage : stages) used.insert(stage.inputs.begin(), stage.inputs.end());
    for (int i = 0; i < carried_; ++i)
      if (!is_unchanged(i)) carried.push_back(i);
    for (int input : used) invariant.push_back(input);

    ir::Graph* loop_body = module_.add_graph(body_.name() + "_cycle");
    ir::Builder builder(loop_body);
    Value* cycle = loop_body->add_input({DType::kI32, {}}, "cycle");
    std::unordered_map<int, Value*> values;  // by number of the body's input
    for (int i : carried)
      values[pipeline_.input(i)] = loop_body->add_input(carried_input(i)->type(), carried_input(i)->name());
    for (int i : invariant)
      values[i] = loop_body->add_input(body_.inputs()[i]->type(), body_.inputs()[i]->name());
    std::vector<int> order;
    for (int stage = 0; stage < stage_count_; ++stage)
      if (stages[stage].graph != nullptr) order.push_back(stage);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return delay_[a] > delay_[b]; });
    for (int stage : order) emit_stage(builder, cycle, stage, stages[stage], values);
    for (int i : carried) loop_body->append_output(values.at(pipeline_.input(i)));

    std::vector<Value*> start, constant;
    for (int i : carried) start.push_back(op_.operand(i));
    for (int i : invariant) constant.push_back(op_.operand(pipeline_.operand(i)));
    ir::Builder outer(op_.graph(), &op_);
    outer.settings = op_.settings;
    outer.location = op_.location;
    const std::vector<Value*> ends = outer.loop(loop_body, start, constant, micro_batches_ + last_delay());
    for (size_t i = 0; i < carried.size(); ++i) {
      Value* result = op_.result(carried[i]);
      result->replace_all_uses_with(ends[i]);
      names_.emplace_back(ends[i], result->name());
    }
    for (int i = 0; i < carried_; ++i)
      if (is_unchanged(i)) op_.result(i)->replace_all_uses_with(op_.operand(i));
  }

  void emit_stage(ir::Builder& builder, Value* cycle, int stage, const StageGraph& graph,
                  std::unordered_map<int, Value*>& values) {
    builder.settings.stage = stage;
    builder.settings.ipu = ipu_.at(stage);
    // delay <= cycle < delay + micro-batches; the first and the last stage need one of the two.
    const int delay = delay_[stage];
    Value* is_active = nullptr;
    if (delay > 0) is_active = ops::build(builder, "greater_equal", {cycle, integer(builder, delay)});
    if (delay < last_delay() || is_active == nullptr) {
      Value* is_before_end = ops::build(builder, "less", {cycle, integer(builder, delay + micro_batches_)});
      is_active = is_active == nullptr ? is_before_end
                                       : ops::build(builder, "logical_and", {is_active, is_before_end});
    }
    std::vector<Value*> arguments;
    if (graph.reads_index)
      arguments.push_back(delay == 0 ? cycle : ops::build(builder, "sub", {cycle, integer(builder, delay)}));
    for (int i : graph.carried) arguments.push_back(values.at(pipeline_.input(i)));
    for (int i : graph.inputs) arguments.push_back(values.at(i));
    ir::Graph* otherwise = module_.add_graph(graph.graph->name() + "_idle");
    for (const Value* argument : arguments) otherwise->add_input(argument->type(), argument->name());
    for (size_t i = 0; i < graph.carried.size(); ++i)
      otherwise->append_output(otherwise->inputs()[i + (graph.reads_index ? 1 : 0)]);
    const std::vector<Value*> results = builder.branch(is_active, graph.graph, otherwise, arguments);
    for (size_t i = 0; i < graph.carried.size(); ++i) values[pipeline_.input(graph.carried[i])] = results[i];
  }

  ir::Op& op_;
  const ir::Region pipeline_;
  ir::Graph& body_;
  ir::Module& module_;
  const int carried_;
  const int64_t micro_batches_;
  const Value* const index_;
  const std::unordered_set<const Value*> replicable_;
  std::unordered_map<const ir::Op*, int> stage_;
  std::map<int, std::vector<ir::Op*>> ops_of_stage_;
  std::map<int, int> ipu_;  // of each stage
  std::vector<int> home_;   // stage of each carried value
  std::vector<int> delay_;  // of each stage: cycles behind the first
  std::unordered_map<const Value*, std::vector<Hop>> hops_;
  int stage_count_ = 0;
  std::vector<std::pair<Value*, std::string>> names_;
  int64_t ring_count_ = 0;
};

// A pipeline written as several stage graphs, joined to the one body the rewrite works on.
ir::Graph* join_stages(const ir::Op& op, const std::vector<ir::Graph*>& stages) {
  ir::Graph* body = op.graph()->module()->add_graph(stages[0]->name() + "_body");
  const ir::Region pipeline(op);
  std::vector<Value*> available;  // index, carried, invariant, flows of the stages so far
  for (int i = 0; i < pipeline.first_flow_input(); ++i)
    available.push_back(body->add_input(stages[0]->inputs()[i]->type(), stages[0]->inputs()[i]->name()));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const ir::Graph& graph = *stages[stage];
    IPU_CHECK(graph.inputs().size() == available.size(),
              fmt::format("@{} does not take what flows to it", graph.name()));
    std::unordered_map<const Value*, Value*> values;
    for (size_t i = 0; i < available.size(); ++i) values[graph.inputs()[i]] = available[i];
    for (const auto& inner : graph.ops()) {
      std::vector<Value*> operands;
      for (int i = 0; i < inner->operand_count(); ++i)
        operands.push_back(inner->operand(i) == nullptr ? nullptr : values.at(inner->operand(i)));
      ir::Op* copy = body->copy(*inner, operands);
      copy->settings.stage = static_cast<int>(stage);
      for (int i = 0; i < inner->result_count(); ++i) values[inner->result(i)] = copy->result(i);
    }
    for (int i = 0; i < pipeline.carried(); ++i)
      available[pipeline.input(i)] = values.at(graph.outputs()[pipeline.output(i)]);
    for (size_t i = pipeline.first_flow_output(); i < graph.outputs().size(); ++i)
      available.push_back(values.at(graph.outputs()[i]));
  }
  for (int i = 0; i < pipeline.carried(); ++i) body->append_output(available[pipeline.input(i)]);
  return body;
}

class PipelineToRings : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    std::vector<ir::Op*> pipelines;
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (op->is(ir::kind::kPipeline)) pipelines.push_back(op.get());
    for (const ir::Op* op : pipelines)
      for (const ir::Graph* stage : ir::called_graphs(*op))
        for (const auto& inner : stage->ops())
          if (inner->is(ir::kind::kPipeline))
            throw Error(
                ErrorCode::kInvalidIr,
                "invalid IR: stage @" + stage->name() +
                    " of a pipeline holds another pipeline. Make one pipeline of them, or a loop of the "
                    "inner one.");
    for (ir::Op* op : pipelines) {
      const std::vector<ir::Graph*> stages = ir::called_graphs(*op);
      IPU_CHECK(!stages.empty(), "a pipeline without stages");
      ir::Graph* body = stages.size() == 1 ? stages[0] : join_stages(*op, stages);
      Rewrite rewrite(*op, *body);
      rewrite.run(context);
      op->graph()->erase(op);
      rewrite.take_over_names();
      std::set<ir::Graph*> unused(stages.begin(), stages.end());
      unused.insert(body);
      for (ir::Graph* graph : unused) module.erase_graph(graph);
    }
    context.count("pipelines", static_cast<int64_t>(pipelines.size()));
    return !pipelines.empty();
  }
};

IPU_REGISTER_PASS(PipelineToRings, "pipeline-to-rings",
                  "Rewrites pipelines to loops over cycles, stages and rings.",
                  {"pipelines", "stages", "rings"});

}  // namespace
}  // namespace ipu::passes
