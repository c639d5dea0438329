#include "frontends/torch/capture/gradients/inner_gradients.h"

#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "autodiff/in_graph.h"
#include "frontends/common/step_builder.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/gradients/gradient_node.h"
#include "ops/definition/build.h"
#include "ops/definition/op_def.h"

namespace ipu::frontends::torch_frontend {
namespace {

constexpr char kStandIn[] = "custom_gradient.upstream";

const OpInfo& identity_op() {
  static const OpInfo& info = *find_op_info("poptorch::nop", "");
  return info;
}

}  // namespace

Memory& InnerGradients::memory() { return capture_.memory(); }
ir::Builder& InnerGradients::builder() { return capture_.builder(); }
ir::Graph* InnerGradients::graph() { return capture_.graph(); }

// `gradient` in the shape and type of the tensor it is the gradient of.
ir::Value* InnerGradients::value_for_gradient(const at::Tensor& gradient, const at::Tensor& of) {
  ir::Value* value = memory().read(gradient);
  const Shape wanted(of.sizes().begin(), of.sizes().end());
  if (value->type().shape != wanted) {  // torch sums over what was broadcast
    const Shape shape = value->type().shape;
    const size_t extra = shape.size() >= wanted.size() ? shape.size() - wanted.size() : shape.size();
    std::vector<int64_t> dims;
    bool fits = shape.size() >= wanted.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      if (d < extra || (wanted[d - extra] == 1 && shape[d] != 1))
        dims.push_back(static_cast<int64_t>(d));
      else
        fits = wanted[d - extra] == shape[d];
    }
    if (!fits) {
      throw Error(ErrorCode::kCapture, "gradient of another shape: a gradient of shape " + to_string(shape) +
                                           " is given for a tensor of shape " + to_string(wanted))
          .at(current_user_line());
    }
    if (!dims.empty())
      value = ops::build(builder(), "reduce_sum", {value}, {{"dims", dims}, {"keep_dims", true}});
    value = ops::build(builder(), "reshape", {value}, {{"shape", wanted}});
  }
  const DType dtype = device_dtype(of.scalar_type()).value_or(DType::kF32);
  if (value->type().dtype != dtype) value = ops::build(builder(), "cast", {value}, {{"dtype", dtype}});
  return value;
}

std::vector<at::Tensor> InnerGradients::of(const std::vector<at::Tensor>& outputs,
                                           const std::vector<at::Tensor>& upstream,
                                           const std::vector<at::Tensor>& inputs, bool create_graph) {
  capture_.require_supported();
  capture_.start_op(identity_op());
  builder().settings.no_grad = builder().settings.no_grad || !create_graph;
  std::vector<std::pair<ir::Value*, ir::Value*>> provided;
  std::vector<at::Tensor> sources(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!upstream[i].defined()) continue;
    ir::Value* value = memory().read(outputs[i]);
    provided.emplace_back(value, value_for_gradient(upstream[i], outputs[i]));
    if (value->producer() != nullptr && ops::has_trait(*value->producer(), ops::kLoss))
      value->producer()->settings.outline.set(kInnerLoss, true);
    sources.push_back(upstream[i]);
  }
  std::vector<ir::Value*> required;
  for (const at::Tensor& t : inputs) required.push_back(memory().read(t));
  const std::vector<ir::Value*> found = autodiff::gradients_in_graph(builder(), provided, required);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.emplace_back();
    if (found[i] == nullptr) continue;
    results.back() = memory().new_tensor(contiguous_like(inputs[i]), found[i]);
    if (create_graph) {
      sources.push_back(inputs[i]);
      attach_gradient(sources, results.back());
    }
  }
  return results;
}

std::vector<at::Tensor> InnerGradients::begin_custom(const std::vector<at::Tensor>& results) {
  capture_.start_op(identity_op());
  std::vector<ir::Type> types;
  for (const at::Tensor& t : results) types.push_back(memory().read(t)->type());
  ir::Op* stand_in = builder().create(kStandIn, std::span<ir::Value* const>(), {}, types);
  stand_ins_.push_back(stand_in);
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < results.size(); ++i)
    gradients.push_back(
        memory().new_tensor(contiguous_like(results[i]), stand_in->result(static_cast<int>(i))));
  return gradients;
}

std::vector<at::Tensor> InnerGradients::end_custom(const std::vector<at::Tensor>& results,
                                                   const std::vector<at::Tensor>& arguments,
                                                   const std::vector<at::Tensor>& of) {
  IPU_CHECK(!stand_ins_.empty(), "begin_custom() comes before end_custom()");
  capture_.start_op(identity_op());
  std::vector<ir::Value*> outputs;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!of[i].defined()) continue;
    outputs.push_back(value_for_gradient(of[i], arguments[i]));
    numbers.push_back(static_cast<int64_t>(i));
  }
  ir::Op* stand_in = stand_ins_.back();
  stand_ins_.pop_back();

  // What was captured since the stand-in is copied to a graph of its own. The ops stay where they are:
  // tensors that the pass left behind may hold their values. Unread ones go when the graph is compiled.
  ir::Graph* pass = graph()->module()->add_graph("custom_gradient");
  std::unordered_map<const ir::Value*, ir::Value*> copies;
  std::vector<ir::Value*> extras;
  for (int i = 0; i < stand_in->result_count(); ++i)
    copies[stand_in->result(i)] = pass->add_input(stand_in->result(i)->type(), "upstream");
  auto copy_of = [&](ir::Value* value) {
    if (value == nullptr) return value;
    auto [at, is_new] = copies.try_emplace(value, nullptr);
    if (is_new) {
      at->second = pass->add_input(value->type(), value->name());
      extras.push_back(value);
    }
    return at->second;
  };
  ir::Builder inside(pass);
  for (ir::Op* op = graph()->next(stand_in); op != nullptr; op = graph()->next(op)) {
    if (capture_.bodies().is_left_behind(*op)) continue;
    inside.settings = op->settings;
    inside.settings.context = ir::Context::kBackward;
    inside.location = op->location;
    inside.origin = op->origin;
    std::vector<ir::Value*> operands;
    std::vector<ir::Type> types;
    for (int i = 0; i < op->operand_count(); ++i) operands.push_back(copy_of(op->operand(i)));
    for (int i = 0; i < op->result_count(); ++i) types.push_back(op->result(i)->type());
    ir::Op* made = inside.create(op->kind(), operands, op->attributes, types);
    for (int i = 0; i < op->result_count(); ++i) copies[op->result(i)] = made->result(i);
  }
  for (ir::Value* output : outputs) pass->append_output(copy_of(output));
  ir::Builder before(graph(), stand_in);
  before.settings = stand_in->settings;
  for (int i = 0; i < stand_in->result_count(); ++i)
    stand_in->result(i)->replace_all_uses_with(before.splat(stand_in->result(i)->type(), 0.0));
  graph()->erase(stand_in);

  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (const at::Tensor& t : results) {
    operands.push_back(memory().read(t));
    types.push_back(operands.back()->type());
  }
  for (const at::Tensor& t : arguments) operands.push_back(memory().read(t));
  operands.insert(operands.end(), extras.begin(), extras.end());
  ir::Op* op = builder().create(
      autodiff::kCustomGradient, operands,
      {{"arguments", static_cast<int64_t>(arguments.size())}, {"gradient", pass->name()}, {"of", numbers}},
      types);
  std::vector<at::Tensor> made;
  for (size_t i = 0; i < results.size(); ++i) {
    made.push_back(memory().new_tensor(contiguous_like(results[i]), op->result(static_cast<int>(i))));
    attach_gradient(arguments, made.back());
  }
  return made;
}

}  // namespace ipu::frontends::torch_frontend
