// The graphs made here are called bodies: (what the forward graph takes, gradients of what it returns) →
// gradients of what is wanted. Both kinds of op build them with region_gradient().
#include "autodiff/regions.h"

#include <algorithm>

#include "autodiff/differentiate.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::autodiff {
namespace {

using ir::Value;

void take_settings(ir::Builder& builder, const ir::Builder& from) {
  builder.settings = from.settings;
  builder.location = from.location;
  builder.origin = from.origin;
}

// Emits the gradients of `region`'s inputs `required` at the end of the builder's graph. `arguments` stand
// for the region's inputs, `upstream` for the gradients of its outputs (nullptr: none).
std::vector<Value*> region_gradient(ir::Builder& builder, ir::Graph& region,
                                    const std::vector<Value*>& arguments, const std::vector<Value*>& upstream,
                                    const std::vector<int>& required) {
  DifferentiateOptions options;
  options.stitch = Stitch::kRecompute;
  std::vector<Value*> given;
  for (size_t i = 0; i < upstream.size(); ++i) {
    if (upstream[i] == nullptr) continue;
    options.provided.push_back(region.outputs()[i]);  // twice the same value: two gradients, which add up
    given.push_back(upstream[i]);
  }
  for (int input : required) options.required.push_back(region.inputs()[input]);
  const GradInfo info = differentiate(region, options);
  std::vector<Value*> operands;
  size_t next = 0;
  for (const Connection& input : info.expected_inputs)
    operands.push_back(input.kind == ConnectionKind::kGradient ? given[next++]
                                                               : arguments[input.forward->index()]);
  return builder.call(info.graph, operands);
}

}  // namespace

std::vector<Value*> if_gradients(ir::Op& op, const std::vector<Value*>& upstream,
                                 const std::vector<bool>& needs, ir::Builder& builder, const Fetch& fetch) {
  std::vector<Value*> arguments, gradients(op.operand_count());
  const ir::Region branching(op);
  for (int i = branching.first_operand(); i < op.operand_count(); ++i)
    arguments.push_back(fetch(op.operand(i)));
  const size_t forward_arguments = arguments.size();
  for (Value* gradient : upstream)
    if (gradient != nullptr) arguments.push_back(gradient);
  std::vector<int> required;
  for (int i = branching.first_operand(); i < op.operand_count(); ++i)
    if (needs[i]) required.push_back(branching.input(i));
  if (required.empty()) return gradients;

  std::vector<ir::Graph*> branches;
  for (ir::Graph* region : branching.bodies()) {
    ir::Graph* graph = builder.module()->add_graph(region->name() + "_backward");
    std::vector<Value*> inputs;
    for (const Value* argument : arguments)
      inputs.push_back(graph->add_input(argument->type(), argument->name()));
    std::vector<Value*> inner_upstream;
    size_t next = forward_arguments;
    for (const Value* gradient : upstream)
      inner_upstream.push_back(gradient != nullptr ? inputs[next++] : nullptr);
    ir::Builder inner(graph);
    take_settings(inner, builder);
    inputs.resize(forward_arguments);
    for (Value* gradient : region_gradient(inner, *region, inputs, inner_upstream, required))
      graph->append_output(gradient);
    branches.push_back(graph);
  }
  const std::vector<Value*> results =
      builder.branch(fetch(op.operand(branching.condition_operand())), branches[0], branches[1], arguments);
  for (size_t i = 0; i < required.size(); ++i) gradients[branching.operand(required[i])] = results[i];
  return gradients;
}

std::vector<Value*> loop_gradients(ir::Op& op, const std::vector<Value*>& upstream,
                                   const std::vector<bool>& needs, ir::Builder& builder, const Fetch& fetch) {
  const ir::Region loop(op);
  ir::Graph& body = loop.body();
  const int64_t trip = op.attributes.integer("trip");
  const int carried = loop.carried();
  const int operands = op.operand_count();
  std::vector<Value*> forward;
  for (int i = 0; i < operands; ++i) forward.push_back(fetch(op.operand(i)));
  const ir::Type index_type{DType::kI32, {}};

  // First loop: carried values of every iteration into stashes [trip, ...], a row each. Rows are written before
  // the body runs: it may then overwrite the values it was given, so that nothing is copied but the rows.
  ir::Graph* record = builder.module()->add_graph(body.name() + "_record");
  std::vector<Value*> stashes;
  {
    ir::Builder inner(record);
    take_settings(inner, builder);
    Value* index = record->add_input(index_type, "index");
    std::vector<Value*> state, stash, constant;
    for (int i = 0; i < carried; ++i)
      state.push_back(record->add_input(forward[i]->type(), forward[i]->name()));
    for (int i = 0; i < carried; ++i) {
      ir::Type type = forward[i]->type();
      type.shape.insert(type.shape.begin(), trip);
      stash.push_back(record->add_input(type, forward[i]->name() + "_stash"));
    }
    for (int i = carried; i < operands; ++i)
      constant.push_back(record->add_input(forward[i]->type(), forward[i]->name()));
    Value* row = ops::build(inner, "reshape", {index}, {{"shape", Shape{1}}});
    for (int i = 0; i < carried; ++i) {
      Shape shape = stash[i]->type().shape;
      shape[0] = 1;
      Value* slice = ops::build(inner, "reshape", {state[i]}, {{"shape", shape}});
      stash[i] = ops::build(inner, "index_copy", {stash[i], row, slice}, {{"dim", int64_t{0}}});
    }
    std::vector<Value*> arguments{index};
    arguments.insert(arguments.end(), state.begin(), state.end());
    arguments.insert(arguments.end(), constant.begin(), constant.end());
    for (Value* next : inner.call(&body, arguments)) record->append_output(next);
    for (Value* kept : stash) record->append_output(kept);
    std::vector<Value*> start(forward.begin(), forward.begin() + carried);
    for (int i = 0; i < carried; ++i) start.push_back(builder.splat(stash[i]->type(), 0.0));
    const std::vector<Value*> invariant(forward.begin() + carried, forward.end());
    const std::vector<Value*> ends = builder.loop(record, start, invariant, trip);
    stashes.assign(ends.begin() + carried, ends.end());
  }

  // Second loop: carries the gradients of the carried values and the sums for the invariants, last iteration
  // first.
  std::vector<int> required;  // operands of `op`
  for (int i = 0; i < operands; ++i) {
    const bool is_floating = is_floating_point(forward[i]->type().dtype);
    if (is_floating && (i < carried || needs[i])) required.push_back(i);
  }
  ir::Graph* back = builder.module()->add_graph(body.name() + "_backward");
  ir::Builder inner(back);
  take_settings(inner, builder);
  Value* index = back->add_input(index_type, "index");
  std::vector<Value*> sums, start;
  for (int i : required) {
    sums.push_back(back->add_input(forward[i]->type(), forward[i]->name() + "_gradient"));
    const bool given = i < carried && upstream[i] != nullptr;
    start.push_back(given ? upstream[i] : builder.splat(forward[i]->type(), 0.0));
  }
  std::vector<Value*> arguments{ops::build(inner, "sub", {inner.scalar(DType::kI32, trip - 1), index})};
  Value* at = ops::build(inner, "reshape", {arguments[0]}, {{"shape", Shape{1}}});
  for (int i = 0; i < carried; ++i) {
    Value* stash = back->add_input(stashes[i]->type(), stashes[i]->name());
    Value* row = ops::build(inner, "index_select", {stash, at}, {{"dim", int64_t{0}}});
    arguments.push_back(ops::build(inner, "reshape", {row}, {{"shape", forward[i]->type().shape}}));
  }
  for (int i = carried; i < operands; ++i)
    arguments.push_back(back->add_input(forward[i]->type(), forward[i]->name()));
  std::vector<Value*> body_upstream(carried, nullptr);
  std::vector<int> body_required;
  for (size_t i = 0; i < required.size(); ++i) {
    if (required[i] < carried) body_upstream[required[i]] = sums[i];
    body_required.push_back(loop.input(required[i]));
  }
  const std::vector<Value*> gradients_here =
      region_gradient(inner, body, arguments, body_upstream, body_required);
  for (size_t i = 0; i < required.size(); ++i)
    back->append_output(required[i] < carried ? gradients_here[i]
                                              : ops::build(inner, "add", {sums[i], gradients_here[i]}));
  std::vector<Value*> invariant = stashes;
  invariant.insert(invariant.end(), forward.begin() + carried, forward.end());
  const std::vector<Value*> ends = builder.loop(back, start, invariant, trip);
  std::vector<Value*> gradients(operands);
  for (size_t i = 0; i < required.size(); ++i)
    if (needs[required[i]]) gradients[required[i]] = ends[i];
  return gradients;
}

}  // namespace ipu::autodiff
