// Stochastic rounding, where the strategy of the module asks for it: an op that rounds its f16 results (ops/rounding.h)
// is computed in f32 instead, on operands cast to f32, and a `stochastic_round` follows. So every result has one
// rounding, as before, and no kernel knows of it. Ops without a definition, and ops that make halves of integers or
// of a seed alone, stay as they are.
//
// The seed: entry graphs load one of rounding's own, or that of random ops. Each region gets one of its own, by its number
// among the regions of its graph, as a further operand, and a loop one for each trip; each rounding in a graph has
// a stream of its own. Runs before placement and inlining, so that copies of an op made later draw its numbers.
#include <fmt/core.h>

#include <map>
#include <tuple>
#include <unordered_set>

#include "ir/builder.h"
#include "ir/regions.h"
#include "ir/seed_stream.h"
#include "ir/strategy.h"
#include "ops/definition/build.h"
#include "ops/rounding.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

// Apart from the seeds of random ops, which number replicas, iterations and micro-batches from 0.
constexpr double kSeedOfRounding = -1;
constexpr int64_t kStreamsPerOp = 16;  // of an op: streams of different ops are apart

class RoundAtRandom : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const ir::Strategy strategy = ir::strategy_of(module);
    if (!strategy.stochastic_rounding) return false;
    context_ = &context;
    home_ = strategy.blocks.empty() ? "" : strategy.blocks.front();
    find_graphs(module);
    if (rounding_.empty()) return false;
    std::unordered_set<const ir::Graph*> entries;
    for (const auto& [point, name] : module.entry_points) entries.insert(module.find_graph(name));
    for (ir::Graph* graph : callees_first(module))
      if (rounding_.contains(graph)) rewrite(*graph, entries.contains(graph));
    return true;
  }

 private:
  void find_graphs(const ir::Module& module) {
    rounding_.clear();
    repeated_.clear();
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (ir::is_region(*op) && ir::Region(*op).repeats())
          for (const ir::Graph* body : ir::called_graphs(*op)) repeated_.insert(body);
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (ops::rounds_halves(*op)) {
          rounding_.insert(graph.get());
          break;
        }
    if (rounding_.empty()) return;
    // Who calls such a graph hands a seed on, to all graphs that the region may run.
    for (bool grows = true; grows;) {
      grows = false;
      for (const auto& graph : module.graphs())
        for (const auto& op : graph->ops()) {
          if (!calls_rounding(*op)) continue;
          grows = rounding_.insert(graph.get()).second || grows;
          for (const ir::Graph* body : ir::called_graphs(*op)) grows = rounding_.insert(body).second || grows;
        }
    }
  }

  bool calls_rounding(const ir::Op& op) const {
    for (const ir::Graph* callee : ir::called_graphs(op))
      if (rounding_.contains(callee)) return true;
    return false;
  }

  void rewrite(ir::Graph& graph, bool is_entry) {
    std::vector<ir::Op*> ops;
    for (const auto& op : graph.ops()) ops.push_back(op.get());
    widened_.clear();
    const ir::Context context = is_entry ? ir::Context::kAccumulateOuter : context_of(graph);
    // Weight updates draw the same numbers on all replicas, which hold the same weights.
    ir::Value* seed = is_entry ? seed_of_entry(graph) : seed_of_callee(graph, context);
    ir::Value* own = nullptr;  // of the replica
    int64_t regions = 0, stream = 0;
    for (ir::Op* op : ops) {
      poll_interruption();
      if (ops::rounds_halves(*op)) {
        const bool updates = op->settings.context == ir::Context::kAccumulateOuter;
        if (!updates && own == nullptr) {
          ir::Builder builder = at_home(graph, op, context);
          own = derived(builder, seed, builder.replica_index());
        }
        round_results(*op, updates ? seed : own, stream++);
      } else if (calls_rounding(*op)) {
        ir::Builder builder = at_home(graph, op, context);
        if (op->is(ir::kind::kPipeline) && ir::called_graphs(*op).size() > 1)
          throw Error(
              ErrorCode::kInvalidIr,
              fmt::format("stochastic rounding of split stages: @{} holds a pipeline of {} stage graphs; "
                          "build it with one, whose ops name their stages.",
                          graph.name(), ir::called_graphs(*op).size()));
        const auto number = static_cast<double>(regions++);
        op->append_operand(derived(builder, seed, builder.scalar(DType::kI32, number)));
      }
    }
  }

  // Seeds are made in the first stage of a pipeline, or outside of it.
  static ir::Context context_of(const ir::Graph& graph) {
    for (const auto& op : graph.ops()) {
      if (ir::is_region(*op) || op->is(ir::kind::kConstant)) continue;
      if (op->settings.context == ir::Context::kForward || op->settings.context == ir::Context::kBackward)
        return ir::Context::kForward;
    }
    return ir::Context::kAccumulateOuter;
  }

  void round_results(ir::Op& op, ir::Value* seed, int64_t number) {
    ir::Graph& graph = *op.graph();
    ir::Builder builder(&graph, &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    std::vector<ir::Value*> operands;
    for (int i = 0; i < op.operand_count(); ++i) operands.push_back(widened(builder, op.operand(i)));
    Attributes attributes = op.attributes;
    for (const auto& [name, value] : op.attributes)
      if (const DType* dtype = std::get_if<DType>(&value); dtype != nullptr && *dtype == DType::kF16)
        attributes.set(name, DType::kF32);
    std::vector<ir::Value*> made;
    ir::Op* wide = ops::build_op(builder, op.kind(), operands, std::move(attributes));
    for (int i = 0; i < op.result_count(); ++i) {
      const ir::Type type = op.result(i)->type();
      ir::Value* result = wide->result(i);
      if (type.dtype == DType::kF16) {
        IPU_CHECK(result->type().dtype == DType::kF32,
                  fmt::format("'{}' of f32 operands gives {}", op.kind(), ir::to_string(result->type())));
        result = ops::build(builder, "stochastic_round", {result, seed},
                            {{"stream_id", number * kStreamsPerOp + i}});
      }
      IPU_CHECK(result->type() == type,
                fmt::format("'{}' computed in f32 gives {} where it gave {}", op.kind(),
                            ir::to_string(result->type()), ir::to_string(type)));
      op.result(i)->replace_all_uses_with(result);
      made.push_back(result);
      context_->count("results rounded at random", type.dtype == DType::kF16 ? 1 : 0);
    }
    std::vector<std::pair<ir::Value*, std::string>> names;
    for (int i = 0; i < op.result_count(); ++i)
      names.emplace_back(made[static_cast<size_t>(i)], op.result(i)->name());
    graph.erase(&op);
    for (const auto& [value, name] : names) graph.rename(value, name);
  }

  // One cast serves all readers of a block and pass.
  ir::Value* widened(ir::Builder& builder, ir::Value* value) {
    if (value == nullptr || value->type().dtype != DType::kF16) return value;
    ir::Value*& wide = widened_[{value, builder.settings.block, builder.settings.context}];
    if (wide == nullptr) wide = ops::build(builder, "cast", {value}, {{"dtype", DType::kF32}});
    return wide;
  }

  ir::Builder at_home(ir::Graph& graph, ir::Op* before, ir::Context context) const {
    ir::Builder builder(&graph, before);
    builder.settings.block = home_;
    builder.settings.context = context;
    return builder;
  }

  static ir::Value* derived(ir::Builder& builder, ir::Value* seed, ir::Value* counter) {
    return ops::build(builder, "random_seed", {seed, counter}, {}, "rounding_seed");
  }

  // Returns the seed of a graph that others call: its callers pass it on as an input. Each trip of a loop has another
  // seed.
  ir::Value* seed_of_callee(ir::Graph& graph, ir::Context context) const {
    ir::Value* seed = graph.add_input({DType::kU32, {2}}, "rounding_seed");
    if (!repeated_.contains(&graph)) return seed;
    ir::Builder builder = at_home(graph, graph.ops().front().get(), context);
    return derived(builder, seed, graph.inputs()[0]);
  }

  ir::Value* seed_of_entry(ir::Graph& graph) const {
    for (const char* stream : {ir::kRoundingSeedStream, ir::kSeedStream})
      for (const auto& op : graph.ops()) {
        if (!op->is(ir::kind::kHostLoad) || op->attributes.symbol("stream").name != stream) continue;
        ir::Builder builder = at_home(graph, graph.next(op.get()), op->settings.context);
        return derived(builder, op->result(), builder.scalar(DType::kI32, kSeedOfRounding));
      }
    throw Error(
        ErrorCode::kInvalidIr,
        fmt::format("no seed: @{} rounds at random, and loads nothing from the streams '{}' and '{}'.",
                    graph.name(), ir::kRoundingSeedStream, ir::kSeedStream));
  }

  const PassContext* context_ = nullptr;
  std::string home_;
  std::unordered_set<const ir::Graph*> rounding_, repeated_;
  std::map<std::tuple<const ir::Value*, std::string, ir::Context>, ir::Value*> widened_;
};

IPU_REGISTER_PASS(RoundAtRandom, "round-at-random",
                  "Computes ops with f16 results in f32 and rounds at random.",
                  {"results rounded at random"});

}  // namespace
}  // namespace ipu::passes
