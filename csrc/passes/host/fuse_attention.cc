// Two products around a softmax become one op, fused_attention, that makes the scores of a few rows at a time: of
// long sequences they are many times larger than all else, and would be written and read four times. Takes in what
// stands between the first product and the softmax, in this order: a factor, a causal mask, a boolean mask, the
// addition of a tensor. Where somebody else reads the weights as well (a gradient), in f32, the op gives them too.
// Leaves alone: scores that somebody else reads; few rows, whose products are sums of rows; keys and values too
// large to be copied; other types than f32 and f16.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/host/causal_mask.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "passes/sole_reader.h"
#include "passes/splat.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

constexpr int64_t kFewRows = 16;
constexpr int64_t kMostCopied = 1 << 22;  // elements of key and value of a head: 16 MB of f32 for each worker

// f32 or f16, and the same as `other`.
bool is_like(const ir::Value* value, const ir::Value* other) {
  const DType dtype = value->type().dtype;
  return (dtype == DType::kF32 || dtype == DType::kF16) && dtype == other->type().dtype &&
         value->type().layout.is_plain();
}
int64_t last_extent(const ir::Value* value) {
  return value->type().shape.empty() ? 1 : value->type().shape.back();
}

struct Found {
  ir::Op *softmax = nullptr, *scores = nullptr;
  std::vector<ir::Op*> between;  // from the softmax back
  ir::Value *mask = nullptr, *addend = nullptr;
  std::optional<double> scale, blocked;
  bool causal = false, keeps = true;
};

// Whether what `op` does to scores can be taken in before what was found behind it; notes it. The operand that is
// scores; -1: it cannot.
int take_in(const ir::Op& op, Found& found) {
  const ir::Type& scores = op.result()->type();
  const bool nothing_before = !found.scale && !found.causal && !found.mask;
  const auto same = [&](int i) { return op.operand(i)->type() == scores; };
  if (op.is("add") && nothing_before && !found.addend) {
    for (int i : {0, 1}) {
      ir::Value* other = op.operand(1 - i);
      if (!same(i) || made_for(op, i) == nullptr || !is_like(other, op.result()) ||
          last_extent(other) != scores.shape.back())
        continue;
      found.addend = other;
      return i;
    }
    return -1;
  }
  if (op.is("mul") && !found.scale) {
    for (int i : {0, 1}) {
      const std::optional<double> factor = splat_of(op.operand(1 - i));
      if (!same(i) || !factor || op.operand(1 - i)->type().dtype != scores.dtype) continue;
      found.scale = factor;
      return i;
    }
    return -1;
  }
  if (!op.is("where") || found.scale || found.causal) return -1;
  ir::Value* condition = op.operand(0);
  for (int i : {1, 2}) {
    const std::optional<double> blocked = splat_of(op.operand(3 - i));
    if (!same(i) || !blocked || std::isnan(*blocked)) continue;
    if (i == 1 && *blocked == -std::numeric_limits<double>::infinity() && is_causal(condition)) {
      found.causal = true;
      return i;
    }
    if (found.mask || !condition->type().layout.is_plain() || last_extent(condition) != scores.shape.back())
      continue;
    found.mask = condition;
    found.blocked = blocked;
    found.keeps = i == 1;
    return i;
  }
  return -1;
}

// Where ops stand in the list of their graph.
using Positions = std::unordered_map<const ir::Op*, int64_t>;

// The softmax that makes operand 0 of `product`, where and when that runs. What else reads it does so after the product.
ir::Op* softmax_before(const ir::Op& product, const Positions& positions) {
  const ir::Value* weights = product.operand(0);
  ir::Op* softmax = weights->producer();
  if (softmax == nullptr || !softmax->is("softmax")) return nullptr;
  if (made_for(product, 0) != nullptr) return softmax;
  if (weights->type().dtype != DType::kF32 || !run_together(*softmax, product)) return nullptr;
  for (const ir::Use& use : weights->uses())
    if (use.user != &product && positions.at(use.user) <= positions.at(&product)) return nullptr;
  return softmax;
}

std::optional<Found> attention_before(const ir::Op& product, const Positions& positions) {
  if (!product.is("matmul") || product.attributes.boolean("trans_a", false) ||
      product.attributes.boolean("trans_b", false) || !is_like(product.result(), product.result()) ||
      !is_like(product.operand(1), product.result()))
    return std::nullopt;
  Found found;
  found.softmax = softmax_before(product, positions);
  if (found.softmax == nullptr) return std::nullopt;
  const Shape& shape = found.softmax->result()->type().shape;
  if (found.softmax->attributes.integer("dim") != static_cast<int64_t>(shape.size()) - 1 ||
      shape[shape.size() - 2] < kFewRows || shape.back() == 0)
    return std::nullopt;
  const ir::Op* reader = found.softmax;
  for (int operand = 0;;) {
    ir::Op* op = made_for(*reader, operand);
    if (op == nullptr || op->result_count() != 1 || !is_like(op->result(), product.result()))
      return std::nullopt;
    if (op->is("matmul")) {
      found.scores = op;
      break;
    }
    operand = take_in(*op, found);
    if (operand < 0) return std::nullopt;
    found.between.push_back(op);
    reader = op;
  }
  const ir::Op& scores = *found.scores;
  if (scores.attributes.boolean("trans_a", false) || !scores.attributes.boolean("trans_b", false) ||
      !is_like(scores.operand(0), product.result()) || !is_like(scores.operand(1), product.result()))
    return std::nullopt;
  if (shape.back() > kMostCopied / (last_extent(scores.operand(0)) + last_extent(product.operand(1)) + 1))
    return std::nullopt;
  return found;
}

class FuseAttention : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs())
      if (!has_order_edges(*graph) && has_softmax(*graph) && sweep(*graph, context)) changed = true;
    return changed;
  }

 private:
  static bool has_softmax(const ir::Graph& graph) {
    return std::any_of(graph.ops().begin(), graph.ops().end(),
                       [](const auto& op) { return op->is("softmax"); });
  }

  static bool sweep(ir::Graph& graph, const PassContext& context) {
    Positions positions;
    for (const auto& op : graph.ops()) positions.emplace(op.get(), static_cast<int64_t>(positions.size()));
    bool changed = false;
    ir::Op* next = nullptr;
    for (ir::Op* op = graph.ops().front().get(); op != nullptr; op = next) {
      poll_interruption();
      next = graph.next(op);
      const std::optional<Found> found = attention_before(*op, positions);
      if (!found) continue;
      const int64_t position = positions.at(op);
      positions[fuse(*op, *found)] = position;
      context.count("attentions fused");
      changed = true;
    }
    return changed;
  }

  static const ir::Op* fuse(ir::Op& op, const Found& found) {
    std::vector<ir::Value*> operands{found.scores->operand(0), found.scores->operand(1), op.operand(1)};
    if (found.mask || found.addend) operands.push_back(found.mask);
    if (found.addend) operands.push_back(found.addend);
    Attributes attributes;
    if (found.scale) attributes.set("scale", *found.scale);
    if (found.causal) attributes.set("causal", true);
    if (found.mask) {
      attributes.set("keeps", found.keeps);
      attributes.set("blocked", *found.blocked);
    }
    attributes.set("zero_blocked", found.softmax->attributes.boolean("zero_blocked", false));
    ir::Builder builder(op.graph(), &op);
    builder.settings = op.settings;
    builder.location = op.location;
    for (const ir::Op* part : parts_of(found))
      builder.location = ir::join(part->location, {&builder.location, 1});
    builder.origin = op.origin;
    const bool alone = found.softmax->result()->uses().size() == 1 && !found.softmax->result()->is_output();
    ir::Op* made = ops::build_op(builder, alone ? "fused_attention" : "fused_attention_with_weights",
                                 operands, std::move(attributes));
    ir::Graph* graph = op.graph();
    const std::string name = op.result()->name(), weights = found.softmax->result()->name();
    replace_op(op, {made->result(0)});
    graph->rename(made->result(0), name);
    if (!alone) {
      replace_op(*found.softmax, {made->result(1)});
      graph->rename(made->result(1), weights);
    }
    for (ir::Op* part : parts_of(found))
      if (alone || part != found.softmax) graph->erase(part);
    return made;
  }

  static std::vector<ir::Op*> parts_of(const Found& found) {  // from the softmax back
    std::vector<ir::Op*> parts{found.softmax};
    parts.insert(parts.end(), found.between.begin(), found.between.end());
    parts.push_back(found.scores);
    return parts;
  }
};

IPU_REGISTER_PASS(FuseAttention, "fuse-attention",
                  "Makes two products around a softmax one op that makes the scores of a few rows at a time.",
                  {"attentions fused"});

}  // namespace
}  // namespace ipu::passes
