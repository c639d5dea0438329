#include "frontends/torch/capture/memory/views.h"

#include <algorithm>
#include <utility>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/operators/aten_call.h"
#include "frontends/torch/capture/operators/tensor_meta.h"
#include "ops/definition/effects.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

// A view operator over the value of what it views. It has no other tensor arguments, writes nothing and draws
// no random numbers.
class ViewCall final : public AtenCall {
 public:
  ViewCall(ir::Builder& builder, const ViewStep& step, ir::Value* parent)
      : AtenCall(builder, *step.op, step.arguments, step.types), viewed_(step.viewed), parent_(parent) {}

  void write(std::string_view, ir::Value*) override { impossible("writes"); }
  ir::Value* seed() override { impossible("draws random numbers"); }
  int64_t next_stream() override { impossible("draws random numbers"); }

 private:
  ir::Value* given(size_t i) override { return i == viewed_ ? parent_ : nullptr; }
  ir::Value* read(const at::Tensor&) override { impossible("reads another tensor"); }
  [[noreturn]] void impossible(const std::string& what) const {
    throw Error(ErrorCode::kInternal, "view operator aten::" + info_.overload + " " + what);
  }

  size_t viewed_;
  ir::Value* parent_;
};

}  // namespace

std::shared_ptr<ViewStep> Views::step_of(const OpInfo& info, at::ArrayRef<c10::IValue> arguments) {
  auto step = std::make_shared<ViewStep>();
  step->op = &info;
  step->viewed = static_cast<size_t>(std::max<int64_t>(info.viewed, 0));
  step->arguments.assign(arguments.begin(), arguments.end());
  step->arguments[step->viewed] = c10::IValue();
  return step;
}

std::shared_ptr<ViewStep> Views::reshaping(const ir::Type& type) {
  static const OpInfo& view = *find_op_info("aten::view", "");
  auto step = step_of(view, {c10::IValue(), c10::IValue(std::vector<int64_t>(type.shape))});
  step->types = {type};
  return step;
}

std::shared_ptr<ViewStep> Views::beginning(const ir::Type& type) {
  static const OpInfo& slice = *find_op_info("aten::slice", "Tensor");
  auto step = step_of(slice, {c10::IValue(), c10::IValue(int64_t{0}), c10::IValue(int64_t{0}),
                              c10::IValue(type.elements()), c10::IValue(int64_t{1})});
  step->types = {type};
  return step;
}

std::shared_ptr<ViewStep> Views::own_value(const ir::Type& type, bool detached) {
  static const OpInfo &same = *find_op_info("poptorch::nop", ""), &detach = *find_op_info("aten::detach", "");
  auto step = step_of(same, {c10::IValue()});
  if (detached) step->op = &detach;
  step->types = {type};
  return step;
}

std::shared_ptr<ViewStep> Views::window(const at::Tensor& t) {
  static const OpInfo& as_strided = *find_op_info("aten::as_strided", "");
  auto step = step_of(as_strided, {c10::IValue(), t.sizes().vec(), t.strides().vec(), t.storage_offset()});
  step->types = {ir_type(t.sizes(), t.scalar_type())};
  return step;
}

void Views::look(ViewStep& step, ir::Value* parent, uint64_t generation) {
  if (step.op->importer == nullptr) {
    throw Error(ErrorCode::kUnsupportedOps,
                "unsupported operation: aten::" + step.op->overload + " makes a view the IPU cannot read")
        .at(current_user_line());
  }
  const ir::OriginPtr of_the_reader = std::exchange(builder_.origin, step.op->origin);
  ViewCall call(builder_, step, parent);
  (*step.op->importer)(call);
  builder_.origin = of_the_reader;
  step.values = call.take();
  step.generation = generation;
}

// The view was made from its parent by ops that are views: writes through each, the last one first.
ir::Value* Views::write_back(const ViewStep& step, size_t result, ir::Value* parent, ir::Value* value) {
  ir::Value* view = step.values[result];
  while (view != parent) {
    const ir::Op* op = view->producer();
    IPU_CHECK(op != nullptr && op->operand_count() > 0, "a view leads back to what it views");
    ir::Value* from = op->operand(0);
    if (op->is("nop") || op->is("detach")) {
      view = from;
      continue;
    }
    const ir::ViewRule* rule = ops::view_rule(*op);
    // A concatenation lies in several tensors, and no view of torch does.
    value = rule == nullptr || !rule->write || rule->all_operands
                ? nullptr
                : rule->write(builder_, *op, 0, from, value);
    if (value == nullptr)
      throw Error(ErrorCode::kCapture,
                  "write through a view: aten::" + step.op->overload +
                      " makes a view that cannot be written on the IPU; plain slices, selections, "
                      "reshapes and transpositions can.\n"
                      "  try:      torch.where, masks, or index_put on the whole tensor")
          .at(current_user_line());
    view = from;
  }
  return value;
}

}  // namespace ipu::frontends::torch_frontend
