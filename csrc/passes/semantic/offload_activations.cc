// Forward values that the backward pass reads wait in streaming memory ("offload_activations": elements from
// which a value is worth it; ir::kOutputLocation of an op wins): stored once they are made, loaded when they are
// read. In a phased program they are stored at the end of the phase that makes them and loaded at the beginning of
// each that reads them; with "offload_after_each_phase" the same holds for every value that another phase reads. A
// value stays on chip if it costs nothing to have (constants, loop indices), if it is state, which waits elsewhere
// anyhow, and in a pipeline, whose stages keep their values in rings. Only values that are made and read in one
// graph.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ir/strategy.h"
#include "ops/definition/build.h"
#include "ops/replicable.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/log.h"

namespace ipu::passes {
namespace {

using ir::Value;

class OffloadActivations : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const ir::Strategy strategy = ir::strategy_of(module);
    min_elements_ = strategy.offload_activations;
    if (min_elements_ < 0 && !asks_by_itself(module)) return false;
    is_phased_ = strategy.schedule == ir::Schedule::kPhased;
    each_phase_ = strategy.offload_after_each_phase;
    of_all_ = {strategy.activations_load_io, strategy.activations_store_io};
    stored_ = loaded_ = left_ = 0;
    std::unordered_set<const ir::Graph*> pipelined;
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (op->is(ir::kind::kPipeline))
          for (const ir::Graph* stage : ir::called_graphs(*op)) pipelined.insert(stage);
    for (const auto& graph : module.graphs())
      if (!has_order_edges(*graph)) look_at(*graph, pipelined.contains(graph.get()));
    if (left_ > 0)
      log(LogLevel::kWarn,
          std::to_string(left_) +
              " activations stay on chip although their location is off chip: a pipeline keeps them in the "
              "queues of its stages");
    context.count("activations offloaded", stored_);
    context.count("loads of activations", loaded_);
    return stored_ > 0;
  }

 private:
  struct Tiles {
    bool load_io = false, store_io = false;  // over I/O tiles
  };

  static bool asks_by_itself(const ir::Module& module) {
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (op->settings.outline.find(ir::kOutputLocation) != nullptr) return true;
    return false;
  }

  // Whether a value of this size that the op makes waits off chip.
  bool waits_off_chip(const ir::Op& op, int64_t elements) const {
    if (const Attribute* own = op.settings.outline.find(ir::kOutputLocation))
      return std::get<std::string>(*own) != ir::kOnChip;
    return min_elements_ >= 0 && elements >= min_elements_;
  }

  Tiles tiles_of(const ir::Op& op) const {
    const Attribute* own = op.settings.outline.find(ir::kOutputLocation);
    if (own == nullptr) return of_all_;
    const std::string& text = std::get<std::string>(*own);
    return {text.find(ir::kLoadsIo) != std::string::npos, text.find(ir::kStoresIo) != std::string::npos};
  }

  static bool is_backward(const ir::Op& op) { return op.settings.context == ir::Context::kBackward; }

  // Weights and other state: read from variables, loaded, gathered.
  static bool is_state(const Value& value) {
    const ir::Op* op = value.producer();
    if (op == nullptr || op->is(ir::kind::kVariableRead) || op->is(ir::kind::kRemoteLoad)) return true;
    return ops::has_trait(*op, ops::kCompletesLoad) && is_state(*op->operand(0));
  }

  bool reads_later(const ir::Op& producer, const ir::Op& reader) const {
    if (is_backward(reader)) return !is_phased_ || reader.settings.phase != producer.settings.phase;
    return each_phase_ && producer.settings.phase.has_value() && reader.settings.phase.has_value() &&
           reader.settings.phase != producer.settings.phase;
  }

  void look_at(ir::Graph& graph, bool is_pipelined) {
    const std::unordered_set<const Value*> replicable = ops::find_replicable(graph, nullptr);
    std::vector<ir::Op*> producers;
    phase_begins_.clear();
    first_loads_.clear();
    number_.clear();
    int64_t number = 0;
    for (const auto& op : graph.ops()) {
      number_[op.get()] = number++;
      if (op->settings.phase.has_value()) phase_begins_.try_emplace(*op->settings.phase, op.get());
      if (op->settings.context == ir::Context::kForward) producers.push_back(op.get());
    }
    for (ir::Op* op : producers)
      for (int i = 0; i < op->result_count(); ++i) {
        Value& value = *op->result(i);
        if (!waits_off_chip(*op, value.type().elements()) || replicable.contains(&value) || is_state(value))
          continue;
        offload(graph, *op, value, is_pipelined);
      }
  }

  void offload(ir::Graph& graph, ir::Op& producer, Value& value, bool is_pipelined) {
    struct Load {
      ir::Op* before = nullptr;
      std::vector<ir::Use> uses;
    };
    std::map<int64_t, Load>
        loads;  // by number of the op they stand before; unphased: one before the first reader
    const ir::Op* on_ipu = producer.settings.ipu.has_value() ? &producer : nullptr;
    for (const ir::Use& use : value.uses()) {
      if (!reads_later(producer, *use.user)) continue;
      if (on_ipu == nullptr && use.user->settings.ipu.has_value()) on_ipu = use.user;
      ir::Op* before = use.user;
      if (is_phased_ && before->settings.phase.has_value())
        before = phase_begins_.at(*before->settings.phase);
      Load& load = loads[is_phased_ ? number_.at(before) : 0];
      if (load.before == nullptr || number_.at(before) < number_.at(load.before)) load.before = before;
      load.uses.push_back(use);
    }
    if (loads.empty() || on_ipu == nullptr) return;
    if (is_pipelined) {
      ++left_;
      return;
    }
    const std::string buffer =
        graph.module()->add_remote_buffer({"activation." + value.name(), value.type(), 1}).name;
    const Tiles tiles = tiles_of(producer);
    store(graph, producer, value, *on_ipu->settings.ipu, buffer, tiles.store_io);
    for (const auto& [at, wanted] : loads)
      load(graph, *wanted.before, value, wanted.uses, *on_ipu->settings.ipu, buffer, tiles.load_io);
    ++stored_;
  }

  // Behind the producer, or behind its phase.
  void store(ir::Graph& graph, ir::Op& producer, Value& value, int ipu, const std::string& buffer,
             bool over_io) {
    ir::Op* before = graph.next(&producer);
    if (is_phased_ && producer.settings.phase.has_value())
      if (auto next = phase_begins_.upper_bound(*producer.settings.phase); next != phase_begins_.end()) {
        before = next->second;
        if (auto load = first_loads_.find(before); load != first_loads_.end()) before = load->second;
      }
    ir::Builder builder(&graph, before);
    builder.settings.ipu = ipu;
    builder.settings.phase = producer.settings.phase;
    builder.settings.block = producer.settings.block;
    builder.location = producer.location;
    Value* stored = &value;
    if (over_io) {
      stored = ops::build(builder, "io_tile_copy", {stored}, {{"to", std::string("io")}});
      builder.settings.tile_set = ir::TileSet::kIo;
    }
    builder.create(ir::kind::kRemoteStore, {stored}, {{"buffer", Symbol{buffer}}, {"entry", int64_t{0}}}, {});
  }

  void load(ir::Graph& graph, ir::Op& before, Value& value, const std::vector<ir::Use>& uses, int ipu,
            const std::string& buffer, bool over_io) {
    const ir::Op& reader = *uses.front().user;
    ir::Builder builder(&graph, &before);
    builder.settings.ipu = ipu;
    builder.settings.phase = reader.settings.phase;
    builder.settings.context = reader.settings.context;
    builder.settings.block = reader.settings.block;
    builder.location = reader.location;
    if (over_io) builder.settings.tile_set = ir::TileSet::kIo;
    Value* again = builder
                       .create(ir::kind::kRemoteLoad, {}, {{"buffer", Symbol{buffer}}, {"entry", int64_t{0}}},
                               {value.type()}, value.name())
                       ->result();
    if (is_phased_) first_loads_.try_emplace(&before, again->producer());
    if (over_io) {
      builder.settings.tile_set = ir::TileSet::kCompute;
      again = ops::build(builder, "io_tile_copy", {again}, {{"to", std::string("compute")}});
    }
    for (const ir::Use& use : uses) use.user->set_operand(use.index, again);
    ++loaded_;
  }

  int64_t min_elements_ = 0;
  bool is_phased_ = false, each_phase_ = false;
  Tiles of_all_;
  std::map<int, ir::Op*> phase_begins_;
  std::unordered_map<const ir::Op*, ir::Op*> first_loads_;  // of those added before the beginning of a phase
  std::unordered_map<const ir::Op*, int64_t> number_;
  int64_t stored_ = 0, loaded_ = 0, left_ = 0;
};

IPU_REGISTER_PASS(OffloadActivations, "offload-activations",
                  "Forward values wait for the backward pass in streaming memory.",
                  {"activations offloaded", "loads of activations"});

}  // namespace
}  // namespace ipu::passes
