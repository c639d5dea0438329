// Automatic loss scaling: large elements of the f16 gradients are counted where these are made, summed by block over the
// micro-batches and at the end of the weight update over blocks and replicas; their share halves or doubles the factor.
// All of it is ordinary ops. What a rule of an optimizer sees as its loss scaling is the product.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "frontends/common/step_emitter.h"
#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_def.h"
#include "support/wording.h"

namespace ipu::frontends {
namespace {

using ir::Value;

constexpr double kLargestHalf = 65504.0;
// Powers of two that leave products with any loss scaling, gradient and their squares room in f32. Without them the
// factor of a model whose gradients are all 0 would become infinite.
struct Bounds {
  double smallest, largest;
};
constexpr Bounds kBounds = {0x1p-64, 0x1p64},
                 kHalfBounds = {0x1p-24, 0x1p15};  // of an f16 factor what f16 has

Value* cast_to(ir::Builder& builder, Value* value, DType dtype) {
  return value->type().dtype == dtype ? value : ops::build(builder, "cast", {value}, {{"dtype", dtype}});
}

Value* number(ir::Builder& builder, double value) { return builder.scalar(DType::kF32, value); }

// How many elements are not up to `edge`: NaN, which an infinite gradient leads to, counts. f32, exact up to 2^24.
Value* count_large(ir::Builder& builder, Value* gradient, double edge) {
  Value* size =
      ops::build(builder, "abs", {ops::build(builder, "cast", {gradient}, {{"dtype", DType::kF32}})});
  Value* is_small = ops::build(builder, "less_equal", {size, number(builder, edge)});
  Value* is_large =
      ops::build(builder, "cast", {ops::build(builder, "logical_not", {is_small})}, {{"dtype", DType::kF32}});
  std::vector<int64_t> dims;
  for (size_t d = 0; d < gradient->type().shape.size(); ++d) dims.push_back(static_cast<int64_t>(d));
  if (dims.empty()) return is_large;
  return ops::build(builder, "reduce_sum", {is_large}, {{"dims", dims}, {"keep_dims", false}});
}

Value* sum_of(ir::Builder& builder, const std::vector<Value*>& values) {
  return values.size() == 1 ? values[0] : ops::build_op(builder, "add_n", values)->result();
}

void require_proportion(const char* name, double value) {
  if (value >= 0.0 && value <= 1.0) return;
  throw Error(
      ErrorCode::kOption,
      fmt::format("proportion out of range: automaticLossScalingSettings.{} is {:g}, and a proportion "
                  "is from 0 to 1.",
                  name, value),
      kPopartException);
}

}  // namespace

void StepEmitter::check_loss_scaling() const {
  const LossScaling& scaling = options_.loss_scaling;
  IPU_CHECK(!options_.optimizer.loss_scaling.constant, "the loss scaling is variable where it is automatic");
  require_proportion("binEdgeLocation", scaling.bin_edge);
  require_proportion("thresholdUpperCountProportion", scaling.upper_proportion);
  if (scaling.period < 1)
    throw Error(
        ErrorCode::kOption,
        fmt::format("update period out of range: automaticLossScalingSettings.updatePeriod is {}, and "
                    "the factor is decided every 1 or more weight updates.",
                    scaling.period),
        kPopartException);
  if (options_.schedule == Schedule::kPipelined && plan_.forward_stages > 1 && options_.accumulation == 1)
    throw worded(
        ErrorCode::kOption, "scaling_without_accumulation",
        "automatic loss scaling in a pipeline without accumulation: the pipeline has {stages} stages, "
        "and a weight update has 1 micro-batch.",
        {{"stages", plan_.forward_stages}, {"needed", 2 * plan_.forward_stages - 1}}, kPopartException);
}

bool StepEmitter::is_counted(const Value& forward, const Value& gradient) const {
  if (gradient.type().dtype != DType::kF16) return false;
  if (options_.loss_scaling.tracking == LossScaling::Tracking::kNamed) {
    const std::vector<ir::Value*>& tracked = options_.loss_scaling.tracked;
    return std::find(tracked.begin(), tracked.end(), &forward) != tracked.end();
  }
  if (options_.loss_scaling.tracking == LossScaling::Tracking::kAll) {
    const ir::Op* producer = gradient.producer();
    return producer == nullptr ||
           (!producer->is(ir::kind::kConstant) && ops::view_rule(*producer) == nullptr);
  }
  return std::any_of(forward.uses().begin(), forward.uses().end(), [](const ir::Use& use) {
    return ops::has_trait(*use.user, ops::kMatmul) || ops::has_trait(*use.user, ops::kConvolution);
  });
}

void StepEmitter::collect_loss_scaling() {
  const double edge = kLargestHalf * options_.loss_scaling.bin_edge;
  std::unordered_set<const Value*> seen;
  std::map<std::string, std::vector<Value*>> counts;  // by block
  for (const auto& [forward, gradient] : gradient_.gradients) {
    if (!is_counted(*forward, *gradient) || !seen.insert(gradient).second) continue;
    const ir::Op* producer = gradient->producer();
    ir::Graph* graph = gradient_.graph;
    ir::Op* first = graph->ops().empty() ? nullptr : graph->ops().front().get();
    ir::Builder builder(graph, producer == nullptr ? first : graph->next(producer));
    const Home home = producer == nullptr ? home_of_value(*forward) : home_of_op(*producer);
    stand_at(builder, home, ir::Context::kBackward);
    counts[home.block].push_back(count_large(builder, gradient, edge));
    counted_elements_ += gradient->type().elements();
  }
  if (counted_elements_ == 0)
    throw worded(
        ErrorCode::kOption, "no_half_gradient",
        "no float16 gradient: automatic loss scaling counts large elements of float16 gradients, and "
        "of the {gradients} gradients of this model none {wanted}.",
        {{"gradients", std::ssize(gradient_.gradients)},
         {"wanted", options_.loss_scaling.tracking == LossScaling::Tracking::kAll ? "is one"
                    : options_.loss_scaling.tracking == LossScaling::Tracking::kNamed
                        ? "is one of a tensor that is named"
                        : "is one of an input of a product or convolution"}},
        kPopartException);
  for (const auto& [block, values] : counts) {
    const Home home{block, nullptr};
    ir::Builder builder(gradient_.graph);
    stand_at(builder, home, ir::Context::kBackward);
    gradient_.graph->append_output(sum_of(builder, values));
    gradient_counts_.push_back({home, new_slot()});
  }
  scaling_factor_ = new_slot();
  final_scaling_ = new_slot();
  const DType dtype = options_.loss_scaling.factor_dtype;
  scaling_factor_variable_ = &variable(kLossScaleFactor, {dtype, {}}, "optimizer_state");
  scaling_factor_variable_->initial = ir::make_scalar(dtype, 1.0);
  if (options_.loss_scaling.period == 1) return;
  updates_counted_ = new_slot();
  updates_counted_variable_ =
      &variable(std::string(kLossScaleFactor) + "_counter", {DType::kI32, {}}, "optimizer_state");
  const double counted =
      options_.loss_scaling.decides_first ? static_cast<double>(options_.loss_scaling.period - 1) : 0.0;
  updates_counted_variable_->initial = ir::make_scalar(DType::kI32, counted);
}

void StepEmitter::read_loss_scaling(ir::Builder& builder, Slots& slots) const {
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  slots[scaling_factor_] = cast_to(builder, builder.read_variable(*scaling_factor_variable_), DType::kF32);
  if (updates_counted_ >= 0) slots[updates_counted_] = builder.read_variable(*updates_counted_variable_);
}

void StepEmitter::assign_loss_scaling(ir::Builder& builder, const Slots& slots) const {
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  builder.assign_variable(*scaling_factor_variable_,
                          cast_to(builder, slots[scaling_factor_], options_.loss_scaling.factor_dtype));
  if (updates_counted_ >= 0) builder.assign_variable(*updates_counted_variable_, slots[updates_counted_]);
}

bool StepEmitter::is_loss_half() const { return loss_->type().dtype == DType::kF16; }

void StepEmitter::begin_loss_scaling(ir::Builder& builder, Slots& slots) const {
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  Value* given = slots[hyper_slots_.at(optimizers::stream_name(0, "loss_scaling"))];
  Value* product = ops::build(builder, "mul", {given, slots[scaling_factor_]}, {}, kFinalLossScale);
  // An f16 loss takes it in f16, where a larger one is infinite, and so is every gradient.
  if (is_loss_half())
    product = ops::build(builder, "minimum", {product, number(builder, kLargestHalf)}, {}, kFinalLossScale);
  slots[final_scaling_] = product;
  for (const GradientCount& count : gradient_counts_) {
    stand_at(builder, count.home, ir::Context::kAccumulateOuter);
    slots[count.slot] = number(builder, 0.0);
  }
}

void StepEmitter::add_gradient_counts(ir::Builder& builder, Slots& slots,
                                      const std::vector<Value*>& counts) const {
  for (size_t i = 0; i < gradient_counts_.size(); ++i) {
    const GradientCount& count = gradient_counts_[i];
    stand_at(builder, count.home, ir::Context::kBackward);
    slots[count.slot] = ops::build(builder, "add", {slots[count.slot], counts[i]});
  }
}

void StepEmitter::update_loss_scaling(ir::Builder& builder, Slots& slots) const {
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  const LossScaling& scaling = options_.loss_scaling;
  std::vector<Value*> counts;
  for (const GradientCount& count : gradient_counts_) counts.push_back(slots[count.slot]);
  Value* large = sum_of(builder, counts);
  if (options_.replicas > 1) large = ops::build(builder, "all_reduce", {large});
  const double all = static_cast<double>(counted_elements_ * options_.accumulation * options_.replicas);
  Value* too_many = ops::build(builder, "greater", {large, number(builder, scaling.upper_proportion * all)});
  Value* factor = slots[scaling_factor_];
  const Bounds& bounds = scaling.factor_dtype == DType::kF16 ? kHalfBounds : kBounds;
  Value* less = ops::build(
      builder, "maximum",
      {ops::build(builder, "mul", {factor, number(builder, 0.5)}), number(builder, bounds.smallest)});
  Value* more = ops::build(
      builder, "minimum",
      {ops::build(builder, "mul", {factor, number(builder, 2.0)}), number(builder, bounds.largest)});
  if (is_loss_half()) {
    Value* fits =
        ops::build(builder, "less_equal", {slots[final_scaling_], number(builder, kLargestHalf / 2)});
    more = ops::build(builder, "where", {fits, more, factor});
  }
  Value* next = ops::build(builder, "where", {too_many, less, more});
  if (updates_counted_ >= 0) {
    Value* counted = ops::build(builder, "add", {slots[updates_counted_], builder.scalar(DType::kI32, 1)});
    Value* is_due = ops::build(builder, "equal",
                               {counted, builder.scalar(DType::kI32, static_cast<double>(scaling.period))});
    next = ops::build(builder, "where", {is_due, next, factor});
    slots[updates_counted_] = ops::build(builder, "where", {is_due, builder.scalar(DType::kI32, 0), counted});
  }
  slots[scaling_factor_] = next;
  slots[final_scaling_] = nullptr;
  for (const GradientCount& count : gradient_counts_) slots[count.slot] = nullptr;
}

ir::Type StepEmitter::scaling_anchor_type(const std::string& name) const {
  if (name == kLossScalingStatistics) return {DType::kF32, {2}};
  return {name == kLossScaleFactor ? options_.loss_scaling.factor_dtype : DType::kF32, {}};
}

void StepEmitter::store_scaling(ir::Builder& builder, const Slots& slots, Value* index) const {
  for (const StepOptions::Anchor& anchor : options_.scaling_anchors) {
    stand_at(builder, home_of_value(*loss_), ir::Context::kBackward);
    Value* value = anchor.parameter == kLossScalingStatistics ? scaling_statistics(builder, slots, index)
                   : anchor.parameter == kLossScaleFactor
                       ? cast_to(builder, slots[scaling_factor_], options_.loss_scaling.factor_dtype)
                       : slots[final_scaling_];
    builder.host_store(*module_.find_stream(anchor.stream), value);
  }
}

Value* StepEmitter::scaling_statistics(ir::Builder& builder, const Slots& slots, Value* index) const {
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kBackward);  // the last to count
  std::vector<Value*> counts;
  for (const GradientCount& count : gradient_counts_) counts.push_back(slots[count.slot]);
  Value* large = sum_of(builder, counts);
  Value* all = number(builder, static_cast<double>(counted_elements_));
  if (index != nullptr) {
    Value* done = ops::build(builder, "add", {cast_to(builder, index, DType::kF32), number(builder, 1.0)});
    all = ops::build(builder, "mul", {all, done});
  }
  Value* both[] = {ops::build(builder, "sub", {all, large}), large};
  for (Value*& value : both) value = ops::build(builder, "reshape", {value}, {{"shape", Shape{1}}});
  return ops::build(builder, "concat", {both[0], both[1]}, {{"dim", int64_t{0}}});
}

Value* StepEmitter::loss_scaling(const Slots& slots) const {
  return slots[scales_losses() ? final_scaling_
                               : hyper_slots_.at(optimizers::stream_name(0, "loss_scaling"))];
}

}  // namespace ipu::frontends
