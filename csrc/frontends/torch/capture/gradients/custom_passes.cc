#include "frontends/torch/capture/gradients/custom_passes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontends/common/step_builder.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/gradients/gradient_node.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"

namespace ipu::frontends::torch_frontend {
namespace {

constexpr char kStandIn[] = "custom_gradient.upstream";

const OpInfo& identity_op() {
  static const OpInfo& info = *find_op_info("poptorch::nop", "");
  return info;
}

}  // namespace

ir::Value* value_for_gradient(Capture& capture, const at::Tensor& gradient, const at::Tensor& of) {
  ir::Builder& builder = capture.builder();
  ir::Value* value = capture.memory().read(gradient);
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
      value = ops::build(builder, "reduce_sum", {value}, {{"dims", dims}, {"keep_dims", true}});
    value = ops::build(builder, "reshape", {value}, {{"shape", wanted}});
  }
  const DType dtype = device_dtype(of.scalar_type()).value_or(DType::kF32);
  if (value->type().dtype != dtype) value = ops::build(builder, "cast", {value}, {{"dtype", dtype}});
  return value;
}

std::vector<at::Tensor> CustomPasses::add(const std::string& function, const std::vector<at::Tensor>& results,
                                          const std::vector<at::Tensor>& arguments) {
  capture_.start_op(identity_op());
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (const at::Tensor& t : results) {
    operands.push_back(capture_.memory().read(t));
    types.push_back(operands.back()->type());
  }
  for (const at::Tensor& t : arguments) operands.push_back(capture_.memory().read(t));
  ir::Op* op = capture_.builder().create(autodiff::kCustomGradient, operands,
                                         {{"arguments", static_cast<int64_t>(arguments.size())},
                                          {"call", static_cast<int64_t>(calls_.size())},
                                          {"function", function}},
                                         types);
  calls_.push_back({op, results, arguments});
  std::vector<at::Tensor> made;
  for (size_t i = 0; i < results.size(); ++i) {
    made.push_back(
        capture_.memory().new_tensor(contiguous_like(results[i]), op->result(static_cast<int>(i))));
    attach_gradient(arguments, made.back());
  }
  return made;
}

autodiff::CustomPass CustomPasses::inside_forward(const Backward& backward) {
  return [this, &backward](const ir::Op& op, const std::vector<ir::Value*>& upstream) {
    const ir::Settings settings = capture_.builder().settings;
    const int64_t number = op.attributes.integer("call");
    const Call call = calls_.at(static_cast<size_t>(number));  // the pass may add more
    std::vector<at::Tensor> given;
    for (size_t i = 0; i < call.results.size(); ++i)
      given.push_back(upstream[i] == nullptr
                          ? at::Tensor()
                          : capture_.memory().new_tensor(contiguous_like(call.results[i]), upstream[i]));
    const std::vector<at::Tensor> gradients = backward(number, given);
    std::vector<ir::Value*> values;
    capture_.builder().settings = settings;
    for (size_t i = 0; i < call.arguments.size(); ++i)
      values.push_back(gradients[i].defined() ? value_for_gradient(capture_, gradients[i], call.arguments[i])
                                              : nullptr);
    return values;
  };
}

std::vector<int64_t> CustomPasses::needed_for_training() const {
  if (calls_.empty()) return {};
  const ir::Op* loss = final_loss_of(*capture_.graph(), capture_.memory().inputs().count());
  if (loss == nullptr) return {};
  std::vector<int64_t> numbers;
  for (const ir::Op* op : autodiff::custom_gradients_behind(*capture_.graph(), loss->result()))
    numbers.push_back(op->attributes.integer("call"));
  return numbers;
}

std::vector<at::Tensor> CustomPasses::begin(int64_t number) {
  const Call& call = calls_.at(static_cast<size_t>(number));
  capture_.annotations().begin_pass(*call.op);
  capture_.start_op(identity_op());
  std::vector<ir::Type> types;
  for (int i = 0; i < call.op->result_count(); ++i) types.push_back(call.op->result(i)->type());
  ir::Op* stand_in = capture_.builder().create(kStandIn, std::span<ir::Value* const>(), {}, types);
  open_.push_back({number, stand_in});
  capture_.memory().open_body(true);
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < call.results.size(); ++i)
    gradients.push_back(capture_.memory().new_tensor(contiguous_like(call.results[i]),
                                                     stand_in->result(static_cast<int>(i))));
  return gradients;
}

// The graph that computes `outputs` from what the stand-in stands for and from `read`, which stood in front of the
// call. The ops stay where they are, left behind: memory of the capture may hold their values.
ir::Graph* CustomPasses::graph_of(const Call& call, const ir::Op& stand_in,
                                  const std::vector<ir::Value*>& outputs, std::vector<ir::Value*>& read) {
  ir::Graph& forward = *capture_.graph();
  std::unordered_set<const ir::Value*> wanted(outputs.begin(), outputs.end());
  std::vector<const ir::Op*> ops;
  bool in_pass = true;
  for (const ir::Op* op = forward.ops().back().get(); op != call.op; op = forward.previous(op)) {
    if (op == &stand_in) {
      in_pass = false;
      capture_.bodies().leave_behind(*op);
      continue;
    }
    const bool acts = ops::has_side_effects(*op) && !op->is("print_tensor");
    bool is_needed = in_pass && acts && !capture_.bodies().is_left_behind(*op);
    for (int i = 0; i < op->result_count(); ++i) is_needed |= wanted.contains(op->result(i));
    if (in_pass) capture_.bodies().leave_behind(*op);
    if (!is_needed) continue;
    if (!in_pass && acts) {
      capture_.annotations().lines().resolve();
      throw Error(ErrorCode::kCapture, "result of a later operation: the backward of autograd.Function " +
                                           call.op->attributes.text("function") + " reads what '" +
                                           op->kind() + "' at " + ir::to_string(op->location) +
                                           " made after the function was called.\n"
                                           "  try:      hand it to the function as an argument")
          .at(ir::user_line(call.op->location));
    }
    ops.push_back(op);
    for (int i = 0; i < op->operand_count(); ++i) wanted.insert(op->operand(i));
  }
  std::reverse(ops.begin(), ops.end());

  ir::Graph* pass = forward.module()->add_graph("custom_gradient");
  std::unordered_map<const ir::Value*, ir::Value*> copies;
  for (int i = 0; i < stand_in.result_count(); ++i)
    copies[stand_in.result(i)] = pass->add_input(stand_in.result(i)->type(), "upstream");
  const auto copy_of = [&](ir::Value* value) {
    if (value == nullptr) return value;
    auto [at, is_new] = copies.try_emplace(value, nullptr);
    if (is_new) {
      at->second = pass->add_input(value->type(), value->name());
      read.push_back(value);
    }
    return at->second;
  };
  ir::Builder inside(pass);
  for (const ir::Op* op : ops) {
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
  return pass;
}

void CustomPasses::end(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& parameters,
                       const std::vector<at::Tensor>& of_parameters) {
  IPU_CHECK(!open_.empty(), "begin() comes before end()");
  const Open open = open_.back();
  const Call& call = calls_.at(static_cast<size_t>(open.number));
  capture_.annotations().end_pass();  // whatever block the pass was in at last
  capture_.annotations().begin_pass(*call.op);
  capture_.start_op(identity_op());
  std::vector<ir::Value*> outputs, reached;
  std::vector<int64_t> of;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    outputs.push_back(value_for_gradient(capture_, gradients[i], call.arguments[i]));
    of.push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    outputs.push_back(value_for_gradient(capture_, of_parameters[i], parameters[i]));
    of.push_back(static_cast<int64_t>(call.arguments.size() + i));
    reached.push_back(capture_.memory().value_at_entry(parameters[i]));
  }
  std::vector<ir::Value*> read;
  const ir::Graph* pass = graph_of(call, *open.stand_in, outputs, read);
  for (const std::vector<ir::Value*>* values : {&reached, &read})
    for (ir::Value* value : *values) call.op->append_operand(value);
  call.op->attributes.set("arguments", static_cast<int64_t>(call.arguments.size() + parameters.size()));
  call.op->attributes.set("gradient", pass->name());
  call.op->attributes.set("of", of);
  close();
}

void CustomPasses::abandon() {
  if (open_.empty()) return;  // it had ended when the program was interrupted
  for (const ir::Op* op = open_.back().stand_in; op != nullptr; op = capture_.graph()->next(op))
    capture_.bodies().leave_behind(*op);
  close();
}

void CustomPasses::refuse(int64_t number, const std::string& reason) {
  calls_.at(static_cast<size_t>(number)).op->attributes.set("refusal", reason);
}

void CustomPasses::close() {
  capture_.memory().close_body();
  capture_.annotations().end_pass();
  open_.pop_back();
}

void CustomPasses::add_to_training(const std::vector<at::Tensor>& parameters,
                                   const std::vector<at::Tensor>& gradients) {
  capture_.annotations().lines().resolve();  // for errors
  ir::Builder& builder = capture_.builder();
  const int states = capture_.memory().inputs().count();
  builder.settings = {};
  builder.location = nullptr;
  std::vector<ir::Value*> given;
  for (size_t i = 0; i < parameters.size(); ++i)
    given.push_back(value_for_gradient(capture_, gradients[i], parameters[i]));
  ir::Value* loss = nullptr;
  try {
    loss = find_final_loss(*capture_.graph(), states);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoLoss) throw;
  }
  const bool has_loss = loss != nullptr;
  const ir::Op* stands_at = has_loss ? loss->producer() : given.back()->producer();
  if (stands_at != nullptr) {
    builder.settings.block = stands_at->settings.block;
    builder.location = stands_at->location;
  }
  if (!has_loss) loss = builder.scalar(DType::kF32, 0.0);  // what forward gave is all there is to train on

  ir::Graph* pass = builder.module()->add_graph("custom_gradient");
  ir::Builder inside(pass);
  inside.settings = builder.settings;
  inside.settings.context = ir::Context::kBackward;
  inside.location = builder.location;
  // The gradient of the loss is the loss scaling, which those of the parameters must have in them, too.
  ir::Value* upstream = pass->add_input(loss->type(), "upstream");
  ir::Value* scaling = upstream;
  if (!loss->type().shape.empty()) scaling = ops::build(inside, "reshape", {scaling}, {{"shape", Shape{}}});
  pass->append_output(upstream);
  std::vector<ir::Value*> operands{loss, loss};
  std::vector<int64_t> of{0};
  for (size_t i = 0; i < parameters.size(); ++i) {
    operands.push_back(capture_.memory().value_at_entry(parameters[i]));
    ir::Value* gradient = pass->add_input(given[i]->type(), "gradient");
    const DType dtype = gradient->type().dtype;
    ir::Value* factor = scaling;
    if (factor->type().dtype != dtype) factor = ops::build(inside, "cast", {factor}, {{"dtype", dtype}});
    pass->append_output(ops::build(inside, "mul", {gradient, factor}));
    of.push_back(static_cast<int64_t>(i) + 1);
  }
  operands.insert(operands.end(), given.begin(), given.end());
  const std::vector<ir::Type> types{loss->type()};
  ir::Op* op = builder.create(
      autodiff::kCustomGradient, operands,
      {{"arguments", static_cast<int64_t>(of.size())}, {"gradient", pass->name()}, {"of", of}}, types);
  ops::build(builder, "identity_loss", {op->result()}, {{"reduction", "none"}});
}

}  // namespace ipu::frontends::torch_frontend
