// Keeps activations channels last from one convolution to the next: convolutions produce nhwc, poolings and
// elementwise ops follow their operands, and where anything else reads or makes such a value a layout.convert
// stands between. A transpose between images [N, C, H, W] and [N, H, W, C] is nothing but that convert: where it makes
// what convolutions and poolings read, or what ops of any layout read beside images that are stored so, and where it reads what is
// stored so, no byte moves. Works on f32 and f16 of rank 3 and 4 within a graph; inputs and outputs of graphs stay
// plain. Weights are left to pack-weights.
#include "ir/channels_last.h"

#include <unordered_map>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

bool is_image(const ir::Type& type) {
  return (type.dtype == DType::kF32 || type.dtype == DType::kF16) &&
         (type.shape.size() == 3 || type.shape.size() == 4) && !type.layout.is_blocked();
}

class ChannelsLast : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    changed_ = false;
    for (const auto& graph : module.graphs()) {
      if (has_order_edges(*graph)) continue;
      bool has_convolution = false;
      for (const auto& op : graph->ops()) has_convolution |= ops::has_trait(*op, ops::kConvolution);
      if (!has_convolution) continue;
      converted_.clear();
      for (auto at = graph->ops().begin(); at != graph->ops().end();) {
        ir::Op& op = **at++;
        visit(op, context);
      }
      for (size_t i = 0; i < graph->outputs().size(); ++i)
        if (is_last(graph->outputs()[i]))
          graph->set_output(static_cast<int>(i), in_layout(graph->outputs()[i], Layout::kPlain, context));
    }
    return changed_;
  }

 private:
  static bool is_last(const ir::Value* value) { return value->type().layout.is_channels_last(); }

  void set_last(ir::Op& op) {
    for (int i = 0; i < op.result_count(); ++i) {
      ir::Type type = op.result(i)->type();
      changed_ |= !type.layout.is_channels_last();
      type.layout = Layout::channels_last(type.shape.size());
      op.result(i)->set_type(type);
    }
  }

  // Every operand of the result's rank, and there is one.
  static bool images_are_last(const ir::Op& op) {
    bool any = false;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ir::Value* operand = op.operand(i);
      if (operand == nullptr || operand->type().shape.size() != op.result()->type().shape.size()) continue;
      if (!is_last(operand)) return false;
      any = true;
    }
    return any;
  }

  void visit(ir::Op& op, const PassContext& context) {
    const ops::OpDef* def = ops::definition(op);
    if (op.is("layout.convert")) return;
    if (op.is("transpose") && changes_layout(op)) return;
    if (def != nullptr && def->has(ops::kConvolution)) {
      const ops::LayoutWishes wishes = ops::layout_wishes(op);
      for (int i = 0; i < op.operand_count(); ++i)
        if (wishes.operand(static_cast<size_t>(i)) != ops::LayoutWish::kChannelsLast)
          make_plain(op, i, context);
      if (wishes.result(0) == ops::LayoutWish::kChannelsLast && is_image(op.result()->type())) set_last(op);
      return;
    }
    if (def != nullptr && def->has(ops::kKeepsChannelsLast) && is_image(op.result()->type()) &&
        images_are_last(op))
      return set_last(op);
    if (def != nullptr && (def->has(ops::kPooling) || def->has(ops::kAnyLayout)) && op.result_count() > 0 &&
        is_image(op.result()->type())) {
      bool follows = false;
      for (int i = 0; i < op.operand_count(); ++i)
        follows |= op.operand(i) != nullptr && is_last(op.operand(i));
      bool can = true;
      for (int i = 0; i < op.result_count(); ++i) can = can && is_image(op.result(i)->type());
      for (int i = 0; i < op.operand_count();
           ++i)  // another element type of the same shape cannot be converted
        can = can && (op.operand(i) == nullptr || op.operand(i)->type().shape != op.result()->type().shape ||
                      is_image(op.operand(i)->type()));
      if (follows && can) {
        for (int i = 0; i < op.operand_count(); ++i) {
          ir::Value* operand = op.operand(i);
          if (operand == nullptr || is_last(operand)) continue;
          const bool same_rank_image =
              is_image(operand->type()) &&
              (def->has(ops::kPooling) || operand->type().shape == op.result()->type().shape);
          if (same_rank_image)
            op.set_operand(i,
                           in_layout(operand, Layout::channels_last(operand->type().shape.size()), context));
        }
        set_last(op);
        return;
      }
    }
    // Sums over images read them as they lie.
    if (def != nullptr && def->family == "reduction" && op.result_count() == 1) return;
    const ops::LayoutWishes wishes = def != nullptr ? ops::layout_wishes(op) : ops::LayoutWishes();
    for (int i = 0; i < op.operand_count(); ++i)
      if (wishes.operand(static_cast<size_t>(i)) != ops::LayoutWish::kAsItComes) make_plain(op, i, context);
  }

  // The image with the channels last as it is, for readers that want it stored so; or back. Readers come after what they read.
  bool changes_layout(ir::Op& op) {
    const ir::Type &from = op.operand(0)->type(), &to = op.result()->type();
    if (!is_image(from) || !is_image(to)) return false;
    const std::vector<int64_t>& perm = op.attributes.integers("perm");
    if (is_last(op.operand(0))) return perm == ir::channels_last_permutation(perm.size());
    if (perm != ir::channels_first_permutation(perm.size())) return false;
    bool wanted = false;
    for (const ir::Use& use : op.result()->uses()) {
      const ops::OpDef* def = ops::definition(*use.user);
      if (def == nullptr) return false;
      if (def->has(ops::kConvolution) || def->has(ops::kPooling)) {
        wanted = true;
        continue;
      }
      // Who takes it either way, beside images that lie so already.
      if (!def->has(ops::kAnyLayout) && ops::layout_wishes(*use.user).operand(
                                            static_cast<size_t>(use.index)) != ops::LayoutWish::kAsItComes)
        return false;
      for (int i = 0; i < use.user->operand_count(); ++i) {
        const ir::Value* other = use.user->operand(i);
        if (other == nullptr || other == op.result() || other->type().shape != to.shape) continue;
        if (!is_last(other)) return false;
        wanted = true;
      }
    }
    if (!wanted) return false;
    set_last(op);
    return true;
  }

  void make_plain(ir::Op& op, int i, const PassContext& context) {
    if (op.operand(i) != nullptr && is_last(op.operand(i)))
      op.set_operand(i, in_layout(op.operand(i), Layout::kPlain, context));
  }

  // `value` in another layout, converted once, right after it was made.
  ir::Value* in_layout(ir::Value* value, const Layout& layout, const PassContext& context) {
    ir::Value*& known = converted_[value];
    if (known != nullptr) return known;
    ir::Op* producer = value->producer();
    if (producer != nullptr && producer->is("layout.convert") &&
        producer->operand(0)->type().layout == layout)
      return known = producer->operand(0);
    ir::Graph* graph = value->graph();
    ir::Op* before = producer != nullptr    ? graph->next(producer)
                     : graph->ops().empty() ? nullptr
                                            : graph->ops().front().get();
    ir::Type type = value->type();
    type.layout = layout;
    ir::Op* op = graph->create("layout.convert", {&value, 1}, {{"layout", to_string(layout)}}, {&type, 1},
                               before, value->name());
    if (producer != nullptr) {
      op->settings = producer->settings;
      op->location = producer->location;
    } else {
      const ir::Use* use = value->uses().empty() ? nullptr : &value->uses()[0];
      if (use != nullptr && use->user != op)
        op->settings = use->user->settings, op->location = use->user->location;
    }
    op->settings.outline = {};
    changed_ = true;
    context.count("conversions");
    return known = op->result();
  }

  bool changed_ = false;
  std::unordered_map<const ir::Value*, ir::Value*> converted_;
};

IPU_REGISTER_PASS(ChannelsLast, "channels-last", "Stores activations around convolutions channels last.",
                  {"conversions"});

}  // namespace
}  // namespace ipu::passes
