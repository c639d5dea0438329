// The gradients of a fused attention whose weights are kept (fused_attention_with_weights) become one op: the
// product that gives the gradient of the weights, the gradient of the softmax with the masks and the factor of the
// attention, and the three products behind it, whose largest values are then made for a few rows at a time. Leaves
// alone: an attention of which one gradient is not wanted, or of whose scores another op reads the gradient; few
// heads, since lanes are cut by heads.
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

constexpr int64_t kFewHeads = 4;
constexpr int kQuery = 0, kKey = 1, kValue = 2, kMask = 3;

bool is_product(const ir::Op& op, bool trans_a, bool trans_b) {
  return op.is("matmul") && op.attributes.boolean("trans_a", false) == trans_a &&
         op.attributes.boolean("trans_b", false) == trans_b;
}

struct Found {
  const ir::Op* attention = nullptr;
  ir::Op *d_query = nullptr, *d_key = nullptr, *d_value = nullptr;
  std::vector<ir::Op*> parts;  // what else goes, readers first
};

// The op that alone reads the result of `op`, where and when that runs; nullptr otherwise.
ir::Op* reader_of(const ir::Op& op) {
  const ir::Value* value = op.result();
  if (value->uses().size() != 1 || value->is_output()) return nullptr;
  ir::Op* reader = value->uses().front().user;
  return run_together(op, *reader) ? reader : nullptr;
}

// What the attention did to its scores, undone from the softmax on; nullptr unless it is all of that. Gives the last op.
ir::Op* undo_ends(ir::Op& softmax, const ir::Op& attention, std::vector<ir::Op*>& parts) {
  const double scale = attention.attributes.real("scale", 1.0);
  const ir::Value* mask = attention.operand_count() > kMask ? attention.operand(kMask) : nullptr;
  bool needs_mask = mask != nullptr, needs_causal = attention.attributes.boolean("causal", false),
       needs_scale = scale != 1.0;
  ir::Op* last = &softmax;
  while (needs_mask || needs_causal || needs_scale) {
    ir::Op* op = reader_of(*last);
    if (op == nullptr) return nullptr;
    const ir::Value* value = last->result();
    if (op->is("where")) {
      const bool keeps = op->operand(1) == value;
      if (splat_of(op->operand(keeps ? 2 : 1)) != 0.0) return nullptr;
      if (needs_mask && op->operand(0) == mask && keeps == attention.attributes.boolean("keeps", true))
        needs_mask = false;
      else if (needs_causal && keeps && is_causal(op->operand(0)))
        needs_causal = false;
      else
        return nullptr;
    } else if (op->is("mul") && needs_scale && !needs_mask && !needs_causal) {
      if (splat_of(op->operand(op->operand(0) == value ? 1 : 0)) != scale) return nullptr;
      needs_scale = false;
    } else {
      return nullptr;
    }
    if (op->result()->type() != value->type()) return nullptr;
    parts.insert(parts.begin(), op);
    last = op;
  }
  return last;
}

std::optional<Found> gradient_at(ir::Op& softmax) {
  if (!softmax.is("softmax_gradient")) return std::nullopt;
  ir::Value* weights = softmax.operand(0);
  Found found;
  found.attention = weights->producer();
  ir::Op* product = made_for(softmax, 1);
  if (found.attention == nullptr || !found.attention->is("fused_attention_with_weights") ||
      product == nullptr || weights != found.attention->result(1) || !is_product(*product, false, true) ||
      product->operand(1) != found.attention->operand(kValue))
    return std::nullopt;
  const Shape& shape = weights->type().shape;
  const int64_t heads = element_count(Shape(shape.begin(), shape.end() - 2));
  if (heads < kFewHeads || softmax.attributes.integer("dim") != static_cast<int64_t>(shape.size()) - 1)
    return std::nullopt;
  const ir::Value* d_y = product->operand(0);
  for (const ir::Use& use : weights->uses())
    if (use.index == 0 && is_product(*use.user, true, false) && use.user->operand(1) == d_y &&
        run_together(*use.user, softmax))
      found.d_value = use.user;
  found.parts = {&softmax, product};
  ir::Op* last = undo_ends(softmax, *found.attention, found.parts);
  if (found.d_value == nullptr || last == nullptr || last->result()->is_output() ||
      last->result()->uses().size() != 2)
    return std::nullopt;
  for (const ir::Use& use : last->result()->uses()) {
    if (use.index != 0 || !run_together(*use.user, softmax)) return std::nullopt;
    if (is_product(*use.user, false, false) && use.user->operand(1) == found.attention->operand(kKey))
      found.d_query = use.user;
    if (is_product(*use.user, true, false) && use.user->operand(1) == found.attention->operand(kQuery))
      found.d_key = use.user;
  }
  if (found.d_query == nullptr || found.d_key == nullptr) return std::nullopt;
  return found;
}

class FuseAttentionGradient : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs())
      if (!has_order_edges(*graph)) changed = sweep(*graph, context) || changed;
    return changed;
  }

 private:
  // Where ops stand in the list of their graph.
  using Positions = std::unordered_map<const ir::Op*, int64_t>;

  static bool sweep(ir::Graph& graph, const PassContext& context) {
    std::vector<Found> all;
    for (const auto& op : graph.ops())
      if (std::optional<Found> found = gradient_at(*op)) all.push_back(std::move(*found));
    if (all.empty()) return false;
    Positions positions;
    for (const auto& op : graph.ops()) positions.emplace(op.get(), static_cast<int64_t>(positions.size()));
    for (const Found& found : all) {
      poll_interruption();
      fuse(graph, found, positions);
      context.count("gradients of attention fused");
    }
    return true;
  }

  static void fuse(ir::Graph& graph, const Found& found, const Positions& positions) {
    // All operands are there before the first of the three: the attention is, and what d_value or the softmax reads.
    ir::Op* first = found.d_query;
    for (ir::Op* op : {found.d_key, found.d_value})
      if (positions.at(op) < positions.at(first)) first = op;
    const ir::Op& attention = *found.attention;
    std::vector<ir::Value*> operands{attention.operand(kQuery), attention.operand(kKey),
                                     attention.operand(kValue), attention.result(1),
                                     found.d_value->operand(1)};
    if (attention.operand_count() > kMask && attention.operand(kMask) != nullptr)
      operands.push_back(attention.operand(kMask));
    Attributes attributes{{"scale", attention.attributes.real("scale", 1.0)},
                          {"causal", attention.attributes.boolean("causal", false)},
                          {"keeps", attention.attributes.boolean("keeps", true)}};
    ir::Builder builder(&graph, first);
    builder.settings = first->settings;
    builder.location = found.d_value->location;
    for (const ir::Op* op : {found.d_query, found.d_key})
      builder.location = ir::join(builder.location, {&op->location, 1});
    builder.origin = first->origin;
    ir::Op* made = ops::build_op(builder, "fused_attention_gradient", operands, std::move(attributes));
    int i = 0;
    for (ir::Op* op : {found.d_query, found.d_key, found.d_value}) {
      const std::string name = op->result()->name();
      replace_op(*op, {made->result(i)});
      graph.rename(made->result(i++), name);
    }
    for (ir::Op* op : found.parts) graph.erase(op);
  }
};

IPU_REGISTER_PASS(FuseAttentionGradient, "fuse-attention-gradient",
                  "Makes the products and the softmax that give the gradients of a fused attention one op.",
                  {"gradients of attention fused"});

}  // namespace
}  // namespace ipu::passes
