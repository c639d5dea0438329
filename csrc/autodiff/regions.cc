// The graphs made here are called bodies: (what the forward graph takes, gradients of what it returns) →
// gradients of what is wanted. Both kinds of op build them with region_gradient().
#include "autodiff/regions.h"

#include <algorithm>

#include "autodiff/differentiate.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_gradients.h"
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

namespace {

// A body carries stashes when it has this attribute: so many, behind as many values whose rows they hold.
constexpr const char* kStashes = "stashes";

// A body that does what `body` does, and before that copies its carried values into row `index` of stashes
// [trip, ...], which it carries behind them. Rows are written before the body runs: it may then overwrite the
// values it was given, so that nothing is copied but the rows. `op`: a loop that runs `body`.
ir::Graph* stashing_body(const ir::Op& op, ir::Graph& body, const ir::Builder& place) {
  const ir::Region loop(op);
  const int carried = loop.carried();
  ir::Graph* graph = op.graph()->module()->add_graph(body.name() + "_record");
  ir::Builder inner(graph);
  take_settings(inner, place);
  std::vector<Value*> arguments{graph->add_input({DType::kI32, {}}, "index")}, stashes;
  for (int i = 0; i < carried; ++i)
    arguments.push_back(graph->add_input(op.operand(i)->type(), op.operand(i)->name()));
  for (int i = 0; i < carried; ++i) {
    ir::Type type = op.operand(i)->type();
    type.shape.insert(type.shape.begin(), op.attributes.integer("trip"));
    stashes.push_back(graph->add_input(type, op.operand(i)->name() + "_stash"));
  }
  for (int i = carried; i < op.operand_count(); ++i)
    arguments.push_back(graph->add_input(op.operand(i)->type(), op.operand(i)->name()));
  Value* row = ops::build(inner, "reshape", {arguments[0]}, {{"shape", Shape{1}}});
  for (int i = 0; i < carried; ++i) {
    Shape shape = stashes[i]->type().shape;
    shape[0] = 1;
    Value* slice = ops::build(inner, "reshape", {arguments[1 + i]}, {{"shape", shape}});
    stashes[i] = ops::build(inner, "index_copy", {stashes[i], row, slice}, {{"dim", int64_t{0}}});
  }
  for (Value* next : inner.call(&body, arguments)) graph->append_output(next);
  for (Value* stash : stashes) graph->append_output(stash);
  return graph;
}

std::vector<Value*> empty_stashes(const ir::Op& op, ir::Builder& builder) {
  std::vector<Value*> stashes;
  for (int i = 0; i < ir::Region(op).carried(); ++i) {
    ir::Type type = op.operand(i)->type();
    type.shape.insert(type.shape.begin(), op.attributes.integer("trip"));
    stashes.push_back(builder.splat(type, 0.0));
  }
  return stashes;
}

// The forward loop fills stashes itself from now on: operands and results behind those it has carried so far.
void carry_stashes(ir::Op& op) {
  ir::Builder before(op.graph(), &op);
  before.settings = op.settings;
  before.location = op.location;
  before.origin = op.origin;
  const std::vector<Value*> stashes = empty_stashes(op, before);
  const int carried = static_cast<int>(stashes.size());
  ir::Graph* graph = stashing_body(op, ir::Region(op).body(), before);
  graph->attributes.set(kStashes, int64_t{carried});
  std::vector<Value*> invariants;
  for (int i = carried; i < op.operand_count(); ++i) invariants.push_back(op.operand(i));
  for (Value* stash : stashes) op.append_operand(stash);  // makes room; all behind the carried are set below
  for (int i = 0; i < carried; ++i) op.set_operand(carried + i, stashes[i]);
  for (size_t i = 0; i < invariants.size(); ++i)
    op.set_operand(2 * carried + static_cast<int>(i), invariants[i]);
  for (int i = 0; i < carried; ++i) op.append_result(stashes[i]->type(), op.operand(i)->name() + "_rows");
  op.attributes.set("carried", int64_t{2} * carried);
  ir::set_body(op, 0, *graph);
}

// The body that `op` ran before it carried stashes, if it does and nobody wants gradients of them; else nullptr.
ir::Graph* body_before_stashes(const ir::Op& op, const std::vector<Value*>& upstream) {
  const ir::Region loop(op);
  const ir::Graph& body = loop.body();
  const int64_t stashes = body.attributes.integer(kStashes, 0);
  if (stashes == 0 || loop.carried() != 2 * stashes) return nullptr;
  for (int i = loop.carried() / 2; i < loop.carried(); ++i)
    if (upstream[i] != nullptr) return nullptr;
  for (const auto& inner : body.ops())
    if (ir::is_call(*inner)) return &ir::Region(*inner).body();
  return nullptr;
}

}  // namespace

std::vector<Value*> loop_gradients(ir::Op& op, const std::vector<Value*>& upstream,
                                   const std::vector<bool>& needs, ir::Builder& builder, const Fetch& fetch,
                                   bool may_change_loop) {
  const int64_t trip = op.attributes.integer("trip");
  const ir::Type index_type{DType::kI32, {}};
  const int given_operands = op.operand_count();
  ir::Graph* inner_body = body_before_stashes(op, upstream);
  const bool has_stashes = inner_body != nullptr;
  ir::Graph& body = has_stashes ? *inner_body : ir::Region(op).body();
  const int carried = ir::Region(op).carried() / (has_stashes ? 2 : 1);
  const int skipped = has_stashes ? carried : 0;  // operands that are stashes
  const int operands = given_operands - skipped;
  auto operand_number = [&](int i) { return i < carried ? i : i + skipped; };
  std::vector<Value*> forward;  // invariants have stand-ins here; of the carried values rows are read
  for (int i = 0; i < operands; ++i) {
    Value* value = op.operand(operand_number(i));
    forward.push_back(i < carried ? value : fetch(value));
  }

  // Carried values of every iteration, a row each: from the forward loop, or from one that repeats it here.
  std::vector<Value*> stashes;
  if (has_stashes || may_change_loop) {
    if (!has_stashes && carried > 0) carry_stashes(op);
    for (int i = 0; i < carried; ++i) stashes.push_back(fetch(op.result(carried + i)));
  } else {
    if (ops::has_side_effects(op))
      ops::not_differentiable(
          op,
          "a loop in a body of another loop or branch, which the backward pass repeats; what "
          "prints or calls the host is not repeated");
    ir::Graph* record = stashing_body(op, body, builder);
    std::vector<Value*> start;
    for (int i = 0; i < carried; ++i) start.push_back(fetch(forward[i]));
    for (Value* stash : empty_stashes(op, builder)) start.push_back(stash);
    const std::vector<Value*> invariant(forward.begin() + carried, forward.end());
    const std::vector<Value*> ends = builder.loop(record, start, invariant, trip);
    stashes.assign(ends.begin() + carried, ends.end());
  }

  // The loop that goes back: carries the gradients of the carried values and the sums for the invariants, last
  // iteration first.
  std::vector<int> required;  // operands of `op`
  for (int i = 0; i < operands; ++i) {
    const bool is_floating = is_floating_point(forward[i]->type().dtype);
    if (is_floating && (i < carried || needs[operand_number(i)])) required.push_back(i);
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
    body_required.push_back(1 + required[i]);  // the index comes first
  }
  const std::vector<Value*> gradients_here =
      region_gradient(inner, body, arguments, body_upstream, body_required);
  for (size_t i = 0; i < required.size(); ++i)
    back->append_output(required[i] < carried ? gradients_here[i]
                                              : ops::build(inner, "add", {sums[i], gradients_here[i]}));
  std::vector<Value*> invariant = stashes;
  invariant.insert(invariant.end(), forward.begin() + carried, forward.end());
  const std::vector<Value*> ends = builder.loop(back, start, invariant, trip);
  std::vector<Value*> gradients(given_operands);
  for (size_t i = 0; i < required.size(); ++i)
    if (const int number = operand_number(required[i]); needs[number]) gradients[number] = ends[i];
  return gradients;
}

}  // namespace ipu::autodiff
