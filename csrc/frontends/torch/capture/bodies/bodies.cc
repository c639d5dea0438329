#include "frontends/torch/capture/bodies/bodies.h"

#include <algorithm>

#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/gradients/gradient_node.h"
#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"

namespace ipu::frontends::torch_frontend {
namespace {

constexpr char kStandIn[] = "body.arguments";

bool is_constant(const ir::Value* value) {
  const ir::Op* op = value->producer();
  if (op == nullptr) return false;
  return op->is(ir::kind::kConstant) || (op->is("expand") && is_constant(op->operand(0)));
}

[[noreturn]] void mismatch(const std::string& what, const std::string& cure) {
  throw Error(ErrorCode::kTypeMismatch, what + ".\n  try:      " + cure).at(current_user_line());
}

std::string type_text(const at::Tensor& t) { return ir::to_string(ir_type(t.sizes(), t.scalar_type())); }

}  // namespace

std::vector<at::Tensor> Bodies::open(const std::string& function, const std::vector<at::Tensor>& arguments) {
  Body body;
  body.function = find_op_info(("poptorch::" + function).c_str(), "");
  IPU_CHECK(body.function != nullptr, "poptorch has no function '" + function + "' with bodies");
  capture_.start_op(*body.function);
  body.arguments = arguments;
  std::vector<ir::Type> types;
  for (const at::Tensor& t : arguments) {
    body.operands.push_back(capture_.memory().read(t));
    types.push_back(body.operands.back()->type());
  }
  capture_.annotations().begin_body();
  body.stand_in = capture_.builder().create(kStandIn, std::span<ir::Value* const>(), {}, types);
  capture_.memory().open_body();
  std::vector<at::Tensor> stand_ins;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stand_ins.push_back(capture_.memory().new_tensor(contiguous_like(arguments[i]),
                                                     body.stand_in->result(static_cast<int>(i))));
    // In later rounds the arguments of a loop are what its body made.
    attach_gradient({arguments[i]}, stand_ins.back(), function == "for_loop");
  }
  bodies_.push_back(std::move(body));
  return stand_ins;
}

void Bodies::close(const std::vector<at::Tensor>& results) {
  auto open = std::find_if(bodies_.rbegin(), bodies_.rend(), [](const Body& b) { return !b.is_closed; });
  IPU_CHECK(open != bodies_.rend(), "open() comes before close()");
  Body& body = *open;
  body.results = results;
  capture_.start_op(*body.function);
  for (const at::Tensor& t : results) body.outputs.push_back(capture_.memory().read(t));
  collect(body);
  body.is_closed = true;
  capture_.memory().close_body();
  capture_.annotations().end_body();
}

void Bodies::abandon() {
  IPU_CHECK(!bodies_.empty(), "no body to forget");
  const Body body = std::move(bodies_.back());
  bodies_.pop_back();
  for (const ir::Op* op = body.stand_in; op != nullptr; op = capture_.graph()->next(op))
    left_behind_.insert(op->id());
  if (body.is_closed) return;
  capture_.memory().close_body();
  capture_.annotations().end_body();
}

// What the results need, and what changes state, between the stand-in and the end of the graph.
void Bodies::collect(Body& body) {
  std::unordered_set<const ir::Value*> wanted(body.outputs.begin(), body.outputs.end());
  std::unordered_set<const ir::Op*> inside{body.stand_in};
  ir::Graph& graph = *capture_.graph();
  for (const ir::Op* op = graph.ops().back().get(); op != body.stand_in; op = graph.previous(op)) {
    inside.insert(op);
    // A print that nobody reads does not print outside of bodies either.
    bool is_needed = !is_left_behind(*op) && ops::has_side_effects(*op) && !op->is("print_tensor");
    for (int i = 0; i < op->result_count(); ++i) is_needed |= wanted.contains(op->result(i));
    if (!is_needed) continue;
    body.ops.push_back(op);
    for (int i = 0; i < op->operand_count(); ++i) wanted.insert(op->operand(i));
  }
  std::reverse(body.ops.begin(), body.ops.end());
  std::unordered_set<const ir::Value*> seen{nullptr};
  const auto enter = [&](ir::Value* value) {
    if (value != nullptr && value->producer() != nullptr && inside.contains(value->producer())) return;
    if (!seen.insert(value).second) return;
    if (!is_constant(value)) return body.read.push_back(value);
    std::vector<const ir::Op*> chain;
    for (const ir::Op* op = value->producer(); op != nullptr;
         op = op->operand_count() > 0 ? op->operand(0)->producer() : nullptr)
      if (chain.empty() || seen.insert(op->result()).second) chain.push_back(op);
    body.constants.insert(body.constants.end(), chain.rbegin(), chain.rend());
  };
  for (const ir::Op* op : body.ops)
    for (int i = 0; i < op->operand_count(); ++i) enter(op->operand(i));
  for (ir::Value* value : body.outputs) enter(value);
  for (const ir::Op* op : inside) left_behind_.insert(op->id());
}

Bodies::Body Bodies::take() {
  IPU_CHECK(!bodies_.empty() && bodies_.back().is_closed, "close() comes before the op that runs a body");
  Body body = std::move(bodies_.back());
  bodies_.pop_back();
  return body;
}

// `copies` has what stands for the arguments and for the values read.
void Bodies::copy_into(ir::Graph& graph, const Body& body, Copies& copies) const {
  const auto copy = [&](const ir::Op& op) {
    std::vector<ir::Value*> operands;
    for (int i = 0; i < op.operand_count(); ++i)
      operands.push_back(op.operand(i) == nullptr ? nullptr : copies.at(op.operand(i)));
    const ir::Op* made = graph.copy(op, operands);
    for (int i = 0; i < op.result_count(); ++i) copies[op.result(i)] = made->result(i);
  };
  for (const ir::Op* op : body.constants) copy(*op);
  for (const ir::Op* op : body.ops) copy(*op);
}

std::vector<at::Tensor> Bodies::tensors_of(const std::vector<ir::Value*>& values,
                                           const std::vector<Body>& bodies) {
  std::vector<at::Tensor> made, sources;
  for (const Body& body : bodies) {
    sources.insert(sources.end(), body.arguments.begin(), body.arguments.end());
    sources.insert(sources.end(), body.results.begin(), body.results.end());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    made.push_back(capture_.memory().new_tensor(contiguous_like(bodies[0].results[i]), values[i]));
    attach_gradient(sources, made.back());
  }
  return made;
}

std::vector<at::Tensor> Bodies::loop(int64_t trip) {
  const Body body = take();
  const size_t count = body.arguments.size();
  if (body.results.size() != count)
    mismatch("loop body of another length: the body of poptorch.for_loop takes " + std::to_string(count) +
                 " tensors and returns " + std::to_string(body.results.size()),
             "return one tensor for each argument; what does not change is returned as it came");
  for (size_t i = 0; i < count; ++i)
    if (body.outputs[i]->type() != body.operands[i]->type())
      mismatch("loop body changes a type: result " + std::to_string(i) +
                   " of the body of poptorch.for_loop is " + type_text(body.results[i]) + ", and argument " +
                   std::to_string(i) + " is " + type_text(body.arguments[i]) +
                   "; the next round takes the one for the other",
               "give the argument the shape and dtype of the result before the loop (expand, to), or reshape "
               "the result in the body");
  capture_.start_op(*body.function);
  ir::Builder& builder = capture_.builder();
  ir::Graph* graph = builder.module()->add_graph("loop_body");
  Copies copies;
  ir::Value* index = graph->add_input({DType::kI32, {}}, "index");
  for (size_t i = 0; i < count; ++i) {
    ir::Value* stand_in = body.stand_in->result(static_cast<int>(i));
    copies[stand_in] = graph->add_input(stand_in->type(), body.operands[i]->name());
  }
  ir::Builder inside(graph);
  inside.settings = builder.settings;
  inside.location = builder.location;
  inside.origin = builder.origin;
  for (ir::Value* value : body.read) {
    ir::Value*& input = copies[value];
    input = graph->add_input(value->type(), value->name());
    if (capture_.is_seed(value))  // each round draws numbers of its own
      input = ops::build(inside, "random_seed", {input, index}, {}, "seed");
  }
  copy_into(*graph, body, copies);
  for (ir::Value* output : body.outputs) graph->append_output(copies.at(output));
  return tensors_of(builder.loop(graph, body.operands, body.read, trip), {body});
}

std::vector<at::Tensor> Bodies::branch(const at::Tensor& condition) {
  const Body otherwise = take();
  const Body then = take();
  const size_t count = then.results.size();
  if (otherwise.results.size() != count)
    mismatch("branches of different lengths: then_body of poptorch.cond returns " + std::to_string(count) +
                 " tensors and else_body " + std::to_string(otherwise.results.size()),
             "return the same number of tensors from both");
  for (size_t i = 0; i < count; ++i) {
    const ir::Type &wanted = then.outputs[i]->type(), &given = otherwise.outputs[i]->type();
    const bool fits =
        wanted.shape == given.shape || (!given.shape.empty() && wanted.elements() == given.elements());
    if (wanted.dtype != given.dtype || !fits)
      mismatch("branches of different types: result " + std::to_string(i) + " of poptorch.cond is " +
                   type_text(then.results[i]) + " of then_body and " + type_text(otherwise.results[i]) +
                   " of else_body",
               "give both the same shape and dtype (expand, reshape, to)");
  }
  capture_.start_op(*then.function);
  ir::Builder& builder = capture_.builder();
  ir::Value* chosen = capture_.memory().read(condition);
  if (!chosen->type().shape.empty()) chosen = ops::build(builder, "reshape", {chosen}, {{"shape", Shape{}}});
  // Both take all operands.
  std::vector<ir::Value*> operands;
  std::unordered_map<const ir::Value*, size_t> number;
  const Body* bodies[] = {&then, &otherwise};
  for (const Body* body : bodies)
    for (const std::vector<ir::Value*>* values : {&body->operands, &body->read})
      for (ir::Value* value : *values)
        if (number.try_emplace(value, operands.size()).second) operands.push_back(value);
  ir::Graph* graphs[2];
  for (int b = 0; b < 2; ++b) {
    const Body& body = *bodies[b];
    ir::Graph* graph = graphs[b] = builder.module()->add_graph(b == 0 ? "then_body" : "else_body");
    std::vector<ir::Value*> inputs;
    for (const ir::Value* value : operands) inputs.push_back(graph->add_input(value->type(), value->name()));
    Copies copies;
    for (const ir::Value* value : body.read) copies[value] = inputs[number.at(value)];
    for (size_t i = 0; i < body.operands.size(); ++i)
      copies[body.stand_in->result(static_cast<int>(i))] = inputs[number.at(body.operands[i])];
    copy_into(*graph, body, copies);
    ir::Builder inside(graph);
    inside.settings = builder.settings;
    inside.location = builder.location;
    inside.origin = builder.origin;
    for (size_t i = 0; i < count; ++i) {
      ir::Value* output = copies.at(body.outputs[i]);
      const Shape& shape = then.outputs[i]->type().shape;
      if (output->type().shape != shape) output = ops::build(inside, "reshape", {output}, {{"shape", shape}});
      graph->append_output(output);
    }
  }
  return tensors_of(builder.branch(chosen, graphs[0], graphs[1], operands), {then, otherwise});
}

void Bodies::sweep() {
  if (left_behind_.empty()) return;
  ir::Graph& graph = *capture_.graph();
  ir::Op* earlier = nullptr;
  for (ir::Op* op = graph.ops().back().get(); op != nullptr; op = earlier) {
    earlier = graph.previous(op);
    if (!is_left_behind(*op)) continue;
    bool is_read = false;
    for (int i = 0; i < op->result_count(); ++i) is_read |= !op->result(i)->is_unused();
    if (is_read) {
      IPU_CHECK(!op->is(kStandIn), "an argument of a body is read outside of it");
      continue;
    }
    graph.erase(op);
  }
}

}  // namespace ipu::frontends::torch_frontend
