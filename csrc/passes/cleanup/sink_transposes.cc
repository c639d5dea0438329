// Moves transposes that put the channels of images last behind the ops that read them, so that chains of convolutions whose
// channels a model has last stand as they do in a model that has them first: convolution, sum, activation, with nothing between. The
// transposes of two neighbours meet and go. Only in graphs with convolutions, of images of two and three spatial dimensions; behind
// elementwise ops all of whose images are transposed, paddings and concatenations. Numbers stay as they are. Leaves alone: reductions, whose
// order of sums would change.
#include <algorithm>

#include "ir/builder.h"
#include "ir/channels_last.h"
#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "passes/splat.h"

namespace ipu::passes {
namespace {

bool is_image_rank(size_t rank) { return rank == 4 || rank == 5; }

bool is_together(const ir::Op& a, const ir::Op& b) {
  return a.settings.ipu == b.settings.ipu && a.settings.stage == b.settings.stage &&
         a.settings.phase == b.settings.phase;
}

class SinkTransposes : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs()) {
      if (has_order_edges(*graph)) continue;
      const auto& ops = graph->ops();
      if (std::none_of(ops.begin(), ops.end(),
                       [](const auto& op) { return ops::has_trait(*op, ops::kConvolution); }))
        continue;
      for (auto at = ops.begin(); at != ops.end();) {
        ir::Op& op = **at++;
        if (!visit(op)) continue;
        changed = true;
        context.count("ops in front of transposes");
      }
    }
    return changed;
  }

 private:
  // The image [N, C, ...] that `value` shows with the channels last, for a reader `op`; nullptr: it shows none.
  static ir::Value* image_behind(const ir::Value* value, const ir::Op& op) {
    const ir::Op* maker = value == nullptr ? nullptr : value->producer();
    const bool shows =
        maker != nullptr && maker->is("transpose") && is_together(*maker, op) &&
        is_image_rank(value->type().shape.size()) &&
        maker->attributes.integers("perm") == ir::channels_last_permutation(value->type().shape.size());
    return shows ? maker->operand(0) : nullptr;
  }

  static bool visit(ir::Op& op) {
    if (op.result_count() == 0 || op.operand_count() == 0 || op.operand(0) == nullptr ||
        op.settings.recompute == ir::Recompute::kCheckpoint)
      return false;
    const size_t rank = op.result()->type().shape.size();
    if (!is_image_rank(rank)) return false;
    if (op.is("transpose")) return meet(op, rank);
    if (op.is("pad")) {
      ir::Value* image = image_behind(op.operand(0), op);
      if (image == nullptr) return false;
      Attributes attributes = op.attributes;
      for (const char* name : {"low", "high"})
        attributes.set(name, ir::channels_first(op.attributes.integers(name)));
      return replace(op, {&image, 1}, std::move(attributes));
    }
    if (op.is("concat")) return visit_concat(op, rank);
    const ops::OpDef* def = ops::definition(op);
    return def != nullptr && def->has(ops::kElementwise) && !op.operand(0)->type().layout.is_blocked() &&
           visit_elementwise(op, rank);
  }

  // Channels first again: the image itself.
  static bool meet(ir::Op& op, size_t rank) {
    ir::Value* image = image_behind(op.operand(0), op);
    if (image == nullptr || op.attributes.integers("perm") != ir::channels_first_permutation(rank))
      return false;
    replace_op(op, {image});
    return true;
  }

  static bool visit_concat(ir::Op& op, size_t rank) {
    std::vector<ir::Value*> images;
    for (int i = 0; i < op.operand_count(); ++i) {
      images.push_back(image_behind(op.operand(i), op));
      if (images.back() == nullptr) return false;
    }
    return replace(
        op, images,
        {{"dim", ir::channels_last_permutation(rank)[static_cast<size_t>(op.attributes.integer("dim"))]}});
  }

  static bool visit_elementwise(ir::Op& op, size_t rank) {
    const Shape& shape = op.result()->type().shape;
    std::vector<ir::Value*> images;
    bool any = false;
    for (int i = 0; i < op.operand_count(); ++i) {
      ir::Value* operand = op.operand(i);
      if (operand == nullptr) return false;
      ir::Value* image = image_behind(operand, op);
      any = any || (image != nullptr && operand->type().shape == shape);
      const bool is_small = operand->type().elements() * 2 <= element_count(shape) || splat_of(operand);
      if (image == nullptr && !is_small) return false;
      images.push_back(image);
    }
    if (!any) return false;
    ir::Builder builder = builder_at(op);
    for (size_t i = 0; i < images.size(); ++i)
      if (images[i] == nullptr) images[i] = turned(builder, op.operand(static_cast<int>(i)), rank);
    return replace(op, images, op.attributes);
  }

  // What broadcasts to images with the channels last, for images with the channels first.
  static ir::Value* turned(ir::Builder& builder, ir::Value* value, size_t rank) {
    const ir::Type& type = value->type();
    if (type.elements() == 1 && type.shape.empty()) return value;
    if (const std::optional<double> number = splat_of(value); number && type.shape.size() == rank)
      return builder.splat({type.dtype, ir::channels_first(type.shape)}, *number);
    Shape whole(rank - type.shape.size(), 1);
    whole.insert(whole.end(), type.shape.begin(), type.shape.end());
    if (whole != type.shape) value = ops::build(builder, "reshape", {value}, {{"shape", whole}});
    return ops::build(builder, "transpose", {value}, {{"perm", ir::channels_first_permutation(rank)}});
  }

  static ir::Builder builder_at(ir::Op& op) {
    ir::Builder builder(op.graph(), &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    return builder;
  }

  static bool replace(ir::Op& op, std::span<ir::Value* const> images, Attributes attributes) {
    ir::Builder builder = builder_at(op);
    const ir::Op* made = ops::build_op(builder, op.kind(), images, std::move(attributes));
    std::vector<ir::Value*> shown;
    std::vector<std::string> names;
    for (int i = 0; i < op.result_count(); ++i) {
      names.push_back(op.result(i)->name());
      shown.push_back(
          ops::build(builder, "transpose", {made->result(i)},
                     {{"perm", ir::channels_last_permutation(op.result(i)->type().shape.size())}}));
    }
    ir::Graph* graph = op.graph();
    replace_op(op, shown);
    for (size_t i = 0; i < shown.size(); ++i) graph->rename(shown[i], names[i]);
    return true;
  }
};

IPU_REGISTER_PASS(SinkTransposes, "sink-transposes",
                  "Moves transposes of images behind what reads them, until those of two neighbours meet.",
                  {"ops in front of transposes"});

}  // namespace
}  // namespace ipu::passes
