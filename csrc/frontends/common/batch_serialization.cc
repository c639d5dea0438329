#include "frontends/common/batch_serialization.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ops/definition/build.h"
#include "ops/definition/op_def.h"

namespace ipu::frontends {
namespace {

using ir::Op;
using ir::Value;
using Place = std::tuple<int, int, int>;

// A value that can be cut, and where it was.
struct Cut {
  int64_t axis = 0;
  bool is_made_of_parts = false;  // its op is cut; else the value is whole
  Place place = {};
  std::vector<Value*> parts;  // made of parts: its own
  std::map<Place, std::vector<Value*>> slices;
  Value* joined = nullptr;
};

class Serializer {
 public:
  Serializer(const ForwardGraph& forward, const BatchSerialization& how,
             const std::map<std::string, StepOptions::Placement>& places,
             const std::unordered_set<const Value*>& kept)
      : forward_(forward), graph_(*forward.graph), how_(how), places_(places), kept_(kept) {}

  CutBatch run() {
    for (size_t i = 0; i < forward_.inputs.size(); ++i)
      if (forward_.inputs[i].kind == ForwardGraph::Input::Kind::kHost) mark_whole(graph_.inputs()[i]);
    std::vector<Op*> ops;
    for (const auto& op : graph_.ops()) ops.push_back(op.get());
    for (Op* op : ops) {
      if (std::optional<Step> step = cut(*op)) {
        if (needs_flush(*step)) flush(op);
        for (int i = 0; i < op->result_count(); ++i) {
          Cut& made = cuts_[op->result(i)];
          made.axis = step->result_axis;
          made.is_made_of_parts = true;
          made.place = step->place;
        }
        pending_.push_back(std::move(*step));
      } else {
        keep(*op);
      }
    }
    flush(nullptr);
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      if (Value* value = graph_.outputs()[i]; is_made_of_parts(value))
        graph_.set_output(static_cast<int>(i), whole(value, nullptr));
    for (const Op* op : cut_ops_)
      for (int i = 0; i < op->result_count(); ++i)
        batch_.gone[op->result(i)] = cuts_.at(op->result(i)).joined;
    for (auto op = cut_ops_.rbegin(); op != cut_ops_.rend(); ++op) graph_.erase(*op);
    return std::move(batch_);
  }

 private:
  struct Step {  // an op that is cut
    Op* op;
    Place at;     // ops of one IPU, phase and stage run on a part together
    Place place;  // values stay in parts within it
    std::vector<int64_t> axes;
    int64_t result_axis;
    Attributes attributes;
  };

  Place place_of(const Op& op) const {
    const auto at = places_.find(op.settings.block);
    if (at == places_.end()) return {};
    return {at->second.ipu, at->second.phase, at->second.stage};
  }

  Place joining(const Place& at) const {
    const auto [ipu, phase, stage] = at;
    return {how_.joins_at_ipus ? ipu : 0, how_.joins_at_phases ? phase : 0, how_.joins_at_stages ? stage : 0};
  }

  bool is_made_of_parts(const Value* value) const {
    const auto at = cuts_.find(value);
    return at != cuts_.end() && at->second.is_made_of_parts;
  }

  // A whole value whose dimension 0 may be a batch.
  void mark_whole(const Value* value) {
    const Shape& shape = value->type().shape;
    if (!shape.empty() && shape[0] > 0 && shape[0] % how_.parts == 0) cuts_[value].axis = 0;
  }

  std::optional<Step> cut(Op& op) const {
    const ops::OpDef* def = ops::definition(op);
    if (def == nullptr || !def->batch || def->has(ops::kSideEffects) || op.result_count() == 0 ||
        !op.after.empty() || op.after.has_later())
      return std::nullopt;
    std::vector<int64_t> axes(static_cast<size_t>(op.operand_count()), -1);
    bool is_any = false;
    for (int i = 0; i < op.operand_count(); ++i) {
      const auto at = op.operand(i) == nullptr ? cuts_.end() : cuts_.find(op.operand(i));
      if (at == cuts_.end()) continue;
      axes[static_cast<size_t>(i)] = at->second.axis;
      is_any = true;
    }
    if (!is_any) return std::nullopt;
    ops::BatchPart part{op, axes, how_.parts, ops::with_defaults(*def, op.attributes)};
    const std::optional<int64_t> axis = def->batch(part);
    if (!axis || !gives_parts(op, *def, part, *axis)) return std::nullopt;
    const Place at = place_of(op);
    return Step{&op, at, joining(at), std::move(axes), *axis, std::move(part.attributes)};
  }

  // Whether results of one part are such parts of the results.
  bool gives_parts(const Op& op, const ops::OpDef& def, const ops::BatchPart& part, int64_t axis) const {
    std::vector<ir::Type> types(part.axes.size());
    std::vector<const ir::Type*> operands(part.axes.size(), nullptr);
    for (size_t i = 0; i < types.size(); ++i) {
      const Value* operand = op.operand(static_cast<int>(i));
      if (operand == nullptr) continue;
      types[i] = operand->type();
      if (part.axes[i] >= 0) types[i].shape[static_cast<size_t>(part.axes[i])] /= how_.parts;
      operands[i] = &types[i];
    }
    const std::vector<ir::Type> results = def.infer({def.name, operands, part.attributes});
    for (int i = 0; i < op.result_count(); ++i) {
      ir::Type expected = op.result(i)->type();
      if (axis >= static_cast<int64_t>(expected.shape.size()) ||
          expected.shape[static_cast<size_t>(axis)] % how_.parts != 0)
        return false;
      expected.shape[static_cast<size_t>(axis)] /= how_.parts;
      if (results[static_cast<size_t>(i)] != expected) return false;
    }
    return true;
  }

  bool reads_parts(const Cut& cut, const Value* value, const Place& place) const {
    return cut.is_made_of_parts && cut.place == place && !kept_.contains(value);
  }

  // What waits comes first where an op reads the whole of it, or stands elsewhere.
  bool needs_flush(const Step& step) const {
    if (!pending_.empty() && pending_.back().at != step.at) return true;
    for (size_t i = 0; i < step.axes.size(); ++i) {
      const Value* value = step.op->operand(static_cast<int>(i));
      if (step.axes[i] < 0) continue;
      const Cut& cut = cuts_.at(value);
      if (cut.is_made_of_parts && cut.parts.empty() && !reads_parts(cut, value, step.place)) return true;
    }
    return false;
  }

  // An op that is not cut. What has the batch's size in front may be cut again behind it.
  void keep(Op& op) {
    bool is_any = false;
    for (int i = 0; i < op.operand_count(); ++i) {
      Value* value = op.operand(i);
      const auto at = value == nullptr ? cuts_.end() : cuts_.find(value);
      if (at == cuts_.end()) continue;
      is_any = true;
      if (!at->second.is_made_of_parts) continue;
      if (at->second.parts.empty()) flush(&op);
      op.set_operand(i, whole(value, &op));
    }
    for (int i = 0; is_any && i < op.result_count(); ++i) mark_whole(op.result(i));
  }

  // The ops that wait, part by part, before `before`.
  void flush(Op* before) {
    if (!pending_.empty()) batch_.runs.emplace_back();
    for (const Step& step : pending_)
      for (size_t i = 0; i < step.axes.size(); ++i)
        if (step.axes[i] >= 0) prepare(step, static_cast<int>(i), before);
    for (int64_t part = 0; part < how_.parts; ++part)
      for (const Step& step : pending_) emit(step, part, before);
    for (const Step& step : pending_) {
      batch_.runs.back().results.push_back(step.op->result(0)->name());
      batch_.axes[step.op->result(0)->name()] = step.result_axis;
      cut_ops_.push_back(step.op);
    }
    pending_.clear();
  }

  // Slices of operands that are whole.
  void prepare(const Step& step, int operand, Op* before) {
    Value* value = step.op->operand(operand);
    Cut& cut = cuts_.at(value);
    if (reads_parts(cut, value, step.place)) return;
    batch_.runs.back().whole.insert(value->name());
    batch_.axes[value->name()] = cut.axis;
    if (cut.slices.contains(step.place)) return;
    Value* from = cut.is_made_of_parts ? whole(value, before) : value;
    const Shape& shape = from->type().shape;
    Shape starts(shape.size(), 0), sizes = shape;
    const auto axis = static_cast<size_t>(cut.axis);
    sizes[axis] /= how_.parts;
    ir::Builder builder = builder_at(*step.op, before);
    std::vector<Value*> slices;
    for (int64_t part = 0; part < how_.parts; ++part) {
      starts[axis] = part * sizes[axis];
      slices.push_back(ops::build(builder, "slice", {from},
                                  {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(shape.size(), 1)}}));
    }
    cut.slices[step.place] = std::move(slices);
  }

  void emit(const Step& step, int64_t part, Op* before) {
    std::vector<Value*> operands;
    for (size_t i = 0; i < step.axes.size(); ++i) {
      Value* value = step.op->operand(static_cast<int>(i));
      if (step.axes[i] >= 0) {
        const Cut& cut = cuts_.at(value);
        value = (reads_parts(cut, value, step.place) ? cut.parts
                                                     : cut.slices.at(step.place))[static_cast<size_t>(part)];
      }
      operands.push_back(value);
    }
    ir::Builder builder = builder_at(*step.op, before);
    const Op* made =
        ops::build_op(builder, step.op->kind(), operands, step.attributes, step.op->result()->name());
    for (int i = 0; i < step.op->result_count(); ++i)
      cuts_.at(step.op->result(i)).parts.push_back(made->result(i));
  }

  Value* whole(const Value* value, Op* before) {
    Cut& cut = cuts_.at(value);
    if (cut.joined == nullptr) {
      ir::Builder builder = builder_at(*value->producer(), before);
      cut.joined = ops::build_op(builder, "concat", cut.parts, {{"dim", cut.axis}}, value->name())->result();
    }
    return cut.joined;
  }

  ir::Builder builder_at(const Op& like, Op* before) const {
    ir::Builder builder(forward_.graph, before);
    builder.settings = like.settings;
    builder.location = like.location;
    builder.origin = like.origin;
    return builder;
  }

  const ForwardGraph& forward_;
  ir::Graph& graph_;
  const BatchSerialization& how_;
  const std::map<std::string, StepOptions::Placement>& places_;
  const std::unordered_set<const Value*>& kept_;
  std::unordered_map<const Value*, Cut> cuts_;
  std::vector<Step> pending_;
  std::vector<Op*> cut_ops_;
  CutBatch batch_;
};

}  // namespace

CutBatch serialize_batch(const ForwardGraph& forward, const BatchSerialization& how,
                         const std::map<std::string, StepOptions::Placement>& places,
                         const std::unordered_set<const Value*>& kept) {
  if (how.parts <= 1) return {};
  return Serializer(forward, how, places, kept).run();
}

}  // namespace ipu::frontends
