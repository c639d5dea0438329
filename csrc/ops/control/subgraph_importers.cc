// Importers of nodes that hold graphs: If, Loop and Scan of ONNX, Call of ai.graphcore. The graph of a node is
// called from a graph of ours that hands its inputs on in the order that branches and loops want.
#include <fmt/core.h>

#include <algorithm>

#include "ir/structure.h"
#include "ops/control/body_calls.h"
#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// --- If

// One boolean. PopART takes anything while a session is made, and asks when the program is compiled.
ir::Value* condition_of(NodeImportCall& call) {
  ir::Value* condition = call.operand(0);
  const ir::Type type = condition->type();
  if (type.dtype == DType::kBool && type.elements() == 1) return reshaped(call, condition, {});
  const std::string message = fmt::format("dtype mismatch: the condition of {} is {}; it is one boolean",
                                          call.described(), to_string(type));
  if (!call.is_popart() || call.constant(0) != nullptr || type.elements() < 1) wrong_graph(message);
  condition = call.cast(call.op("no_device_code", {condition}, {{"reason", message + "."}}), DType::kBool);
  return reshaped(call, sliced(call, reshaped(call, condition, {type.elements()}), 0, 0, 1), {});
}

// The branch that a condition of the model names; what the other would do is nobody's business.
void import_branch(NodeImportCall& call, bool condition) {
  call.ignore(condition ? "else_branch" : "then_branch");
  const ImportedBody branch = call.body(condition ? "then_branch" : "else_branch", {});
  const GraphValues results = run_once(call, branch, {});
  for (int i = 0; i < call.result_count(); ++i) {
    call.set_result(i, results[static_cast<size_t>(i)]);
    if (const ConstantPtr& constant = branch.constants[static_cast<size_t>(i)])
      call.set_constant(i, constant);
  }
}

void import_if(NodeImportCall& call) {
  ir::Value* condition = condition_of(call);
  if (const ConstantPtr stated = call.constant(0); stated != nullptr && !call.is_variable(0))
    return import_branch(call, integers_of(*stated)[0] != 0);
  const ImportedBody branches[] = {call.body("then_branch", {}), call.body("else_branch", {})};
  const auto &then = branches[0].graph->outputs(), &otherwise = branches[1].graph->outputs();
  if (then.size() != otherwise.size())
    wrong_graph(
        fmt::format("branches of different lengths: then_branch of {} gives {} values, else_branch {}",
                    call.described(), then.size(), otherwise.size()));
  for (size_t i = 0; i < then.size(); ++i)
    if (then[i]->type() != otherwise[i]->type())
      wrong_graph(
          fmt::format("branches of different types: output {} of {} is {} in then_branch and {} in "
                      "else_branch",
                      i, call.described(), to_string(then[i]->type()), to_string(otherwise[i]->type())));
  const GraphValues results = branch(call, {condition}, {branches[0], branches[1]});
  for (size_t i = 0; i < results.size(); ++i) call.set_result(static_cast<int>(i), results[i]);
}

// --- Call

// PopART calls the operator CallOp in what it says of it.
void check_call_count(NodeImportCall& call, const char* what, int has, int callee) {
  if (has != callee)
    wrong_graph(fmt::format("wrong number of {}: the CallOp {} has {}, and its callee {}", what,
                            call.described(), has, callee));
}

void import_call(NodeImportCall& call) {
  std::vector<ir::Type> types;
  GraphValues arguments;
  check_call_count(call, "inputs", call.operand_count(), call.body_inputs("callee"));
  for (int i = 0; i < call.operand_count(); ++i) {
    arguments.push_back(call.operand(i));
    types.push_back(arguments.back()->type());
  }
  const ImportedBody callee = call.body("callee", types);
  check_call_count(call, "outputs", call.result_count(), static_cast<int>(callee.graph->outputs().size()));
  const GraphValues results = run_once(call, callee, arguments);
  for (size_t i = 0; i < results.size(); ++i) call.set_result(static_cast<int>(i), results[i]);
}

// --- Loop, Scan

// A loop of `trip` rounds: values carried from round to round, values that stay, and for each round one entry of
// each tensor that is put together.
class Repetition {
 public:
  Repetition(NodeImportCall& call, const ImportedBody& body, int64_t trip,
             std::optional<int64_t> expected = std::nullopt)
      : call_(call),
        body_(body),
        trip_(trip),
        expected_(expected),
        graph_(call.builder().module()->add_graph(body.graph->name() + ".loop")) {}

  // `carried`: values before the loop; the last outputs of the body are entries of tensors that are put together.
  // `arguments` gives the declared inputs of the body from the index, the carried values and the stay-ins.
  template <typename Arguments>
  GraphValues run(const GraphValues& carried, const GraphValues& stay, size_t first_output,
                  const std::vector<bool>& backwards, bool may_stop, const Arguments& arguments) {
    const auto& outputs = body_.graph->outputs();
    GraphValues starts = carried, inputs, held, stays, handed;
    for (size_t i = first_output + carried.size(); i < outputs.size(); ++i) {
      Shape shape = outputs[i]->type().shape;
      shape.insert(shape.begin(), trip_);
      starts.push_back(call_.builder().splat({outputs[i]->type().dtype, shape}, 0.0));
    }
    ir::Builder builder = inside(call_, graph_);
    ir::Value* index = graph_->add_input({DType::kI32, {}}, "index");
    for (const ir::Value* value : starts) inputs.push_back(graph_->add_input(value->type(), value->name()));
    for (const ir::Value* value : stay) stays.push_back(graph_->add_input(value->type(), value->name()));
    GraphValues given = arguments(builder, index, inputs, stays);
    for (size_t i = 0; i < body_.captured.size(); ++i) {
      ir::Value* input = graph_->add_input(body_.captured[i]->type(), body_.captured[i]->name());
      // Each round draws numbers of its own.
      given.push_back(static_cast<int>(i) == body_.seed ? build(builder, "random_seed", {input, index})
                                                        : input);
    }
    const GraphValues made = builder.call(body_.graph, given);
    if (may_stop) graph_->append_output(scalar(builder, made[0]));
    for (size_t i = 0; i < starts.size(); ++i) {
      ir::Value* value = made[first_output + i];
      if (i >= carried.size())
        value = put(builder, inputs[i], value, place(builder, index, backwards[i - carried.size()]));
      graph_->append_output(value);
    }
    GraphValues operands = starts;
    operands.insert(operands.end(), stay.begin(), stay.end());
    operands.insert(operands.end(), body_.captured.begin(), body_.captured.end());
    std::vector<ir::Type> types;
    for (const ir::Value* value : starts) types.push_back(value->type());
    Attributes attributes{
        {"body", Symbol{graph_->name()}}, {"trip", trip_}, {"carried", static_cast<int64_t>(starts.size())}};
    if (may_stop) attributes.set("while", true);
    if (may_stop && expected_) attributes.set("expected", *expected_);
    const ir::Op* loop = call_.builder().create(ir::kind::kLoop, operands, std::move(attributes), types);
    GraphValues results;
    for (int i = 0; i < loop->result_count(); ++i) results.push_back(loop->result(i));
    return results;
  }

  // i32[1]: the round, counted from the end where `backwards`.
  ir::Value* place(ir::Builder& builder, ir::Value* index, bool backwards) const {
    if (backwards)
      index = build(builder, "sub", {builder.scalar(DType::kI32, static_cast<double>(trip_ - 1)), index});
    return build(builder, "reshape", {index}, {{"shape", Shape{1}}});
  }

 private:
  static ir::Value* scalar(ir::Builder& builder, ir::Value* value) {
    return value->type().shape.empty() ? value : build(builder, "reshape", {value}, {{"shape", Shape{}}});
  }
  static ir::Value* put(ir::Builder& builder, ir::Value* whole, ir::Value* entry, ir::Value* place) {
    Shape shape = entry->type().shape;
    shape.insert(shape.begin(), 1);
    entry = build(builder, "reshape", {entry}, {{"shape", shape}});
    return build(builder, "index_copy", {whole, place, entry}, {{"dim", int64_t{0}}});
  }

  NodeImportCall& call_;
  const ImportedBody& body_;
  int64_t trip_;
  std::optional<int64_t> expected_;
  ir::Graph* graph_;
};

// PopART trains nothing through loops.
void set_loop_result(NodeImportCall& call, int i, ir::Value* value) {
  const bool stops = call.is_popart() && is_floating_point(value->type().dtype);
  call.set_result(i, stops ? call.op("detach", {value}) : value);
}

void check_carried(NodeImportCall& call, const ImportedBody& body, const GraphValues& carried,
                   size_t first_output) {
  const auto& outputs = body.graph->outputs();
  if (outputs.size() < first_output + carried.size())
    wrong_graph(
        fmt::format("wrong number of outputs: the body of {} gives {} values and must give at least {}",
                    call.described(), outputs.size(), first_output + carried.size()));
  for (size_t i = 0; i < carried.size(); ++i)
    if (outputs[first_output + i]->type() != carried[i]->type())
      wrong_graph(fmt::format(
          "loop body changes a type: value {} of {} is {} before the loop and {} after a round", i,
          call.described(), to_string(carried[i]->type()), to_string(outputs[first_output + i]->type())));
  check_result_count(call, outputs.size() - first_output);
}

// Whether the body never stops its loop: it gives what it was given, or says yes.
bool never_stops(const ImportedBody& body) {
  const auto& says = body.constants[0];
  if (says != nullptr) return reals_of(*says)[0] != 0.0;
  const ir::Value* value = body.graph->outputs()[0];
  while (value->producer() != nullptr && value->producer()->is("nop")) value = value->producer()->operand(0);
  return value == body.graph->inputs()[1];
}

// How many rounds of a loop that a value ends the user expects: what a report counts.
std::optional<int64_t> expected_rounds(NodeImportCall& call, int64_t trip) {
  const char* name = "__expected_iterations";
  if (!call.has(name)) return std::nullopt;
  const int64_t expected = call.integer(name, 0);
  if (expected >= 0 && expected <= trip) return expected;
  wrong_graph(fmt::format("annotation out of range: {} of {} is {}; it is from 0 to the trip count, {}", name,
                          call.described(), expected, trip));
}

void import_loop(NodeImportCall& call) {
  if (!call.has_operand(0))
    call.unsupported(
        "no trip count; it must be given, as the number of rounds is fixed when a program is compiled");
  const std::vector<int64_t> count = call.operand_integers(0, "trip count");
  if (count.size() != 1 || count[0] < 0)
    wrong_graph(fmt::format("value out of range: the trip count of {} is {}; it is one number, not negative",
                            call.described(), to_string(count)));
  GraphValues carried;
  std::vector<ir::Type> types{{DType::kI32, {}}, {DType::kBool, {}}};
  for (int i = 2; i < call.operand_count(); ++i) {
    carried.push_back(call.operand(i));
    types.push_back(carried.back()->type());
  }
  ir::Value* enters = nullptr;  // known when the program runs
  bool never_enters = false;
  if (call.has_operand(1)) {
    if (const ConstantPtr stated = call.constant(1)) {
      never_enters = reals_of(*stated).at(0) == 0.0;
    } else {
      enters = reshaped(call, call.operand(1), {});
    }
  }
  const ImportedBody body = call.body("body", types);
  check_carried(call, body, carried, 1);
  const size_t entries = body.graph->outputs().size() - 1 - carried.size();
  GraphValues results = carried;
  Repetition loop(call, body, count[0], expected_rounds(call, count[0]));
  if (count[0] > 0 && !never_enters) {
    results =
        loop.run(carried, {}, 1, std::vector<bool>(entries, false), !never_stops(body),
                 [&](ir::Builder& builder, ir::Value* index, const GraphValues& inputs, const GraphValues&) {
                   // A round that runs was let in.
                   GraphValues given{index, builder.scalar(DType::kBool, 1.0)};
                   given.insert(given.end(), inputs.begin(), inputs.begin() + std::ssize(carried));
                   return given;
                 });
  }
  for (size_t i = 0; i < carried.size() + entries; ++i) {
    const bool is_entry = i >= carried.size();
    ir::Value* value = i < results.size() ? results[i] : nullptr;
    if (value == nullptr || (enters != nullptr && is_entry)) {
      const ir::Type& entry = body.graph->outputs()[1 + i]->type();
      Shape shape = entry.shape;
      shape.insert(shape.begin(), count[0]);
      ir::Value* zeros = call.builder().splat({entry.dtype, shape}, 0.0);
      value = value == nullptr ? zeros : call.op("where", {enters, value, zeros});
    } else if (enters != nullptr) {
      value = call.op("where", {enters, value, carried[i]});
    }
    set_loop_result(call, static_cast<int>(i),
                    value == nullptr || is_entry || value != carried[i] ? value : call.op("nop", {value}));
  }
}

// One entry per scan input or output; none: zeros.
std::vector<int64_t> listed(NodeImportCall& call, const char* name, size_t count) {
  std::vector<int64_t> list = call.integers(name, {});
  if (list.empty()) list.assign(count, 0);
  if (list.size() != count)
    wrong_graph(fmt::format("attribute mismatch: {} of {} is {}; it has {} entries", name, call.described(),
                            to_string(list), count));
  return list;
}

// Dimension `from` becomes dimension `to`, the others stay in their order.
ir::Value* moved(NodeImportCall& call, ir::Value* value, int64_t from, int64_t to) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < std::ssize(value->type().shape); ++d)
    if (d != from) perm.push_back(d);
  perm.insert(perm.begin() + to, from);
  return transposed(call, value, perm);
}

// One entry of a scanned tensor. PopART's has a rank of 1 at least.
Shape entry_shape(const NodeImportCall& call, const Shape& scanned) {
  if (call.is_popart() && scanned.size() == 1) return {1};
  return {scanned.begin() + 1, scanned.end()};
}

// Entries lie one behind another along a dimension of their own. PopART's are concatenated along a dimension of the
// body's result.
ir::Value* put_together(NodeImportCall& call, ir::Value* entries, int64_t axis) {
  const size_t rank = entries->type().shape.size();
  if (!call.is_popart()) return moved(call, entries, 0, node_dim(call, axis, rank));
  const auto dim = static_cast<size_t>(node_dim(call, axis, rank - 1));
  Shape shape = entries->type().shape;
  const int64_t trip = shape.front();
  shape.erase(shape.begin());
  shape[dim] *= trip;
  return reshaped(call, moved(call, entries, 0, static_cast<int64_t>(dim)), shape);
}

void import_scan(NodeImportCall& call) {
  const int64_t count = call.operand_count(), scanned = call.integer("num_scan_inputs");
  if (scanned < 1 || scanned > count)
    wrong_graph(fmt::format("value out of range: num_scan_inputs of {} is {}, and it has {} operands",
                            call.described(), scanned, count));
  const auto inputs = static_cast<size_t>(scanned), states = static_cast<size_t>(count - scanned);
  const std::vector<int64_t> axes = listed(call, "scan_input_axes", inputs),
                             directions = listed(call, "scan_input_directions", inputs);
  GraphValues carried, stay;
  std::vector<ir::Type> types;
  for (size_t i = 0; i < states; ++i) {
    carried.push_back(call.operand(static_cast<int>(i)));
    types.push_back(carried.back()->type());
  }
  for (size_t i = 0; i < inputs; ++i) {
    ir::Value* x = call.operand(static_cast<int>(states + i));
    stay.push_back(moved(call, x, node_dim(call, axes[i], x->type().shape.size()), 0));
    const Shape& shape = stay.back()->type().shape;
    if (shape[0] != stay[0]->type().shape[0])
      wrong_graph(fmt::format("shape mismatch: {} scans {} and {} entries", call.described(),
                              stay[0]->type().shape[0], shape[0]));
    types.push_back({x->type().dtype, entry_shape(call, shape)});
  }
  const int64_t trip = stay[0]->type().shape[0];
  if (trip < 1) call.unsupported("scan inputs without entries");
  const ImportedBody body = call.body("body", types);
  check_carried(call, body, carried, 0);
  const size_t entries = body.graph->outputs().size() - states;
  for (size_t i = states; call.is_popart() && i < body.graph->outputs().size(); ++i)
    if (body.graph->outputs()[i]->type().shape.empty())
      wrong_graph(fmt::format(
          "shape mismatch: output {} of {} is put together of scalars, which have no dimension to lie "
          "along; give the body's result a shape of [1]",
          i, call.described()));
  const std::vector<int64_t> to = listed(call, "scan_output_axes", entries),
                             backwards = listed(call, "scan_output_directions", entries);
  Repetition loop(call, body, trip);
  const GraphValues results = loop.run(
      carried, stay, 0, std::vector<bool>(backwards.begin(), backwards.end()), false,
      [&](ir::Builder& builder, ir::Value* index, const GraphValues& values, const GraphValues& stays) {
        GraphValues given(values.begin(), values.begin() + std::ssize(carried));
        for (size_t i = 0; i < inputs; ++i) {
          ir::Value* entry =
              build(builder, "index_select", {stays[i], loop.place(builder, index, directions[i] != 0)},
                    {{"dim", int64_t{0}}});
          given.push_back(build(builder, "reshape", {entry}, {{"shape", types[states + i].shape}}));
        }
        return given;
      });
  for (size_t i = 0; i < results.size(); ++i) {
    ir::Value* value = results[i];
    if (i >= states) value = put_together(call, value, to[i - states]);
    set_loop_result(call, static_cast<int>(i), value);
  }
}

struct SubgraphImporters {
  SubgraphImporters() {
    register_onnx_importer("If", {6}, import_if);
    register_onnx_importer("Loop", {6}, import_loop);
    register_onnx_importer("Scan", {9}, import_scan);
    register_graphcore_importer(
        {"Call", "call", "inputs*0:CALL", "outputs*0:CALL", "yes",
         "num_outputs:count, callee:graph, debugName:debug=''",
         "Runs the graph of a child builder once; args are all its inputs in the order of their declaration."},
        import_call);
  }
};
const SubgraphImporters subgraph_importers;

const PopartOperators control_popart = {{
    {"If", "1 11", "cond:BOOL", "outputs:NB", "yes", "else_branch then_branch"},
    {"Loop", "1 11", "!M:INDEX cond:BOOL v_initial:NB", "v_final_and_scan_outputs:NB", "none", "body"},
    {"Scan", "9 11", "initial_state_and_scan_inputs:NB", "final_state_and_scan_outputs:NB", "none",
     "body num_scan_inputs"},
}};

}  // namespace
}  // namespace ipu::ops
