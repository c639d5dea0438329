// Importers of nodes of TensorFlow that hold graphs: loops, conditions and calls. What a graph assigns, variables of the unit,
// the loop carries beside what the node says; what it only reads stays as it is.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "ir/structure.h"
#include "ops/control/body_calls.h"
#include "ops/control/known_rounds.h"
#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// A bound for loops that end when their values say so.
constexpr int64_t kUnbounded = std::numeric_limits<int32_t>::max();

void check_condition(NodeImportCall& call, const ir::Type& type, const char* what) {
  if (type.dtype == DType::kBool && type.elements() == 1) return;
  wrong_graph(fmt::format("dtype mismatch: {} of {} is {}; it is one boolean", what, call.described(),
                          to_string(type)));
}

ir::Value* condition_of(NodeImportCall& call, ir::Value* condition, const char* what) {
  check_condition(call, condition->type(), what);
  return reshaped(call, condition, {});
}

void set_results(NodeImportCall& call, const GraphValues& results) {
  for (size_t i = 0; i < results.size(); ++i) call.set_result(static_cast<int>(i), results[i]);
}

// One loop: the values of the node and the variables that its body assigns go from round to round.
class Loop {
 public:
  Loop(NodeImportCall& call, GraphValues starts, const ImportedBody& body)
      : call_(call), body_(body), declared_(starts.size()), starts_(std::move(starts)) {
    const auto& outputs = body.graph->outputs();
    const size_t given = outputs.size() - body.written.size();
    check_result_count(call, declared_);
    if (given != declared_)
      wrong_graph(
          fmt::format("wrong number of outputs: the body of {} gives {} values, and the loop carries {}",
                      call.described(), given, declared_));
    for (size_t i = 0; i < declared_; ++i)
      if (outputs[i]->type() != starts_[i]->type())
        wrong_graph(
            fmt::format("loop body changes a type: value {} of {} is {} before the loop and {} after a round",
                        i, call.described(), to_string(starts_[i]->type()), to_string(outputs[i]->type())));
    for (size_t i = 0; i < body.captured.size(); ++i) {
      const bool is_written =
          std::find(body.written.begin(), body.written.end(), static_cast<int>(i)) != body.written.end();
      if (!is_written) {
        stays_.push_back(body.captured[i]);
        continue;
      }
      slots_[body.names[i]] = starts_.size();
      starts_.push_back(body.captured[i]);
    }
  }

  // Further values that stay as they are, for `goes_on`: the places of what a condition reads.
  void also_reads(const ImportedBody& condition) {
    for (size_t i = 0; i < condition.captured.size(); ++i)
      if (!slots_.contains(condition.names[i])) stays_.push_back(condition.captured[i]);
  }

  // What of a graph's captured values is before the loop, or in it.
  GraphValues handed(ir::Builder& builder, const ImportedBody& graph, const GraphValues& carried,
                     const GraphValues& stays, ir::Value* index) const {
    GraphValues values;
    for (size_t i = 0; i < graph.captured.size(); ++i) {
      if (const auto slot = slots_.find(graph.names[i]); slot != slots_.end()) {
        values.push_back(carried[slot->second]);
        continue;
      }
      const auto at = std::find(stays_.begin(), stays_.end(), graph.captured[i]) - stays_.begin();
      ir::Value* value = stays[static_cast<size_t>(at)];
      // Each round draws numbers of its own.
      if (static_cast<int>(i) == graph.seed && index != nullptr)
        value = build(builder, "random_seed", {value, index});
      values.push_back(value);
    }
    return values;
  }

  // `goes_on` gives bool[] of the index and the values after a round; nullptr: it runs `trip` times.
  using GoesOn = std::function<ir::Value*(ir::Builder&, ir::Value* index, const GraphValues& carried,
                                          const GraphValues& stays)>;
  // Emits the loop where `builder` stands; `starts` and `stays` are as those of the loop, there.
  GraphValues emit(ir::Builder& builder, const GraphValues& starts, const GraphValues& stays, int64_t trip,
                   const GoesOn& goes_on) const {
    ir::Graph* graph = call_.builder().module()->add_graph(body_.graph->name() + ".loop");
    ir::Builder round = inside(call_, graph);
    ir::Value* index = graph->add_input({DType::kI32, {}}, "index");
    GraphValues carried, kept;
    for (const ir::Value* value : starts) carried.push_back(graph->add_input(value->type(), value->name()));
    for (const ir::Value* value : stays) kept.push_back(graph->add_input(value->type(), value->name()));
    GraphValues arguments(carried.begin(), carried.begin() + static_cast<std::ptrdiff_t>(declared_));
    for (ir::Value* value : handed(round, body_, carried, kept, index)) arguments.push_back(value);
    const GraphValues made = round.call(body_.graph, arguments);
    if (goes_on) graph->append_output(goes_on(round, index, made, kept));
    for (ir::Value* value : made) graph->append_output(value);
    GraphValues operands = starts;
    operands.insert(operands.end(), stays.begin(), stays.end());
    std::vector<ir::Type> types;
    for (const ir::Value* value : starts) types.push_back(value->type());
    Attributes attributes{
        {"body", Symbol{graph->name()}}, {"trip", trip}, {"carried", static_cast<int64_t>(starts.size())}};
    if (goes_on) attributes.set("while", true);
    const ir::Op* loop = builder.create(ir::kind::kLoop, operands, std::move(attributes), types);
    GraphValues results;
    for (int i = 0; i < loop->result_count(); ++i) results.push_back(loop->result(i));
    return results;
  }

  // A loop that may not be entered: `enters` is bool[].
  GraphValues emit_if(ir::Value* enters, int64_t trip, const GoesOn& goes_on) const {
    GraphValues operands = starts_;
    operands.insert(operands.end(), stays_.begin(), stays_.end());
    ir::Graph* graphs[2];
    for (const bool is_entered : {true, false}) {
      ir::Graph* graph = graphs[is_entered ? 0 : 1] =
          call_.builder().module()->add_graph(body_.graph->name() + (is_entered ? ".entered" : ".left_out"));
      GraphValues inputs;
      for (const ir::Value* value : operands)
        inputs.push_back(graph->add_input(value->type(), value->name()));
      const auto middle = inputs.begin() + std::ssize(starts_);
      GraphValues results(inputs.begin(), middle);
      ir::Builder builder = inside(call_, graph);
      if (is_entered) results = emit(builder, results, {middle, inputs.end()}, trip, goes_on);
      for (ir::Value* value : results) graph->append_output(value);
    }
    return call_.builder().branch(enters, graphs[0], graphs[1], operands);
  }

  GraphValues emit(int64_t trip, const GoesOn& goes_on) const {
    return emit(call_.builder(), starts_, stays_, trip, goes_on);
  }

  const GraphValues& starts() const { return starts_; }
  const GraphValues& stays() const { return stays_; }
  size_t declared() const { return declared_; }

  // What the loop gave becomes the results of the node, and what variables hold from here on.
  void finish(const GraphValues& results) const {
    set_results(call_, {results.begin(), results.begin() + static_cast<std::ptrdiff_t>(declared_)});
    for (const int i : body_.written)
      call_.assign_captured(body_, i, results[slots_.at(body_.names[static_cast<size_t>(i)])]);
  }

 private:
  NodeImportCall& call_;
  const ImportedBody& body_;
  size_t declared_;
  GraphValues starts_, stays_;
  std::map<std::string, size_t> slots_;  // of variables, among the carried values
};

struct Carried {
  GraphValues values;
  std::vector<ir::Type> types;
  std::vector<ConstantPtr> constants;
};

Carried carried_from(NodeImportCall& call, int first) {
  Carried carried;
  for (int i = first; i < call.operand_count(); ++i) {
    carried.values.push_back(call.operand(i));
    carried.types.push_back(carried.values.back()->type());
    carried.constants.push_back(call.constant(i));
  }
  return carried;
}

// How long lists get to which the loop appends (frontends/tensorflow/lists.h).
void note_rounds(NodeImportCall& call, int64_t most) {
  if (call.has("loop") && most < kUnbounded) call.note(fmt::format("loop {}", call.integer("loop")), {most});
}

// --- ipu::Repeat

void import_repeat(NodeImportCall& call) {
  std::optional<int64_t> trip;
  const bool has_count = !call.has("n");
  ir::Value* count = nullptr;
  if (!has_count) {
    trip = call.integer("n");
  } else {
    count = call.operand(0);
    if (!is_integer(count->type().dtype) || count->type().elements() != 1)
      wrong_graph(fmt::format("dtype mismatch: the number of rounds of {} is {}; it is one integer",
                              call.described(), to_string(count->type())));
    count = reshaped(call, call.cast(count, DType::kI32), {});
    if (const ConstantPtr known = call.constant(0); known != nullptr && !call.is_variable(0))
      trip = integers_of(*known)[0];
  }
  note_rounds(call, std::max<int64_t>(trip.value_or(kUnbounded), 0));
  const Carried carried = carried_from(call, has_count ? 1 : 0);
  const ImportedBody body = call.body("body", carried.types);
  if (trip == 1) return set_results(call, run_once(call, body, carried.values));
  const Loop loop(call, carried.values, body);
  if (trip.value_or(1) <= 0) return loop.finish(loop.starts());
  if (trip) return loop.finish(loop.emit(*trip, nullptr));
  Loop counted(call, carried.values, body);
  ImportedBody limit;  // reads the number of rounds
  limit.captured = {count};
  limit.names = {""};
  counted.also_reads(limit);
  ir::Value* enters = call.op("greater", {count, call.builder().scalar(DType::kI32, 0.0)});
  counted.finish(counted.emit_if(
      enters, kUnbounded,
      [&](ir::Builder& builder, ir::Value* index, const GraphValues& values, const GraphValues& stays) {
        ir::Value* next = build(builder, "add", {index, builder.scalar(DType::kI32, 1.0)});
        return build(builder, "less", {next, counted.handed(builder, limit, values, stays, nullptr)[0]});
      }));
}

// --- While

void import_while(NodeImportCall& call) {
  for (const char* name : {"T", "parallel_iterations", "output_shapes"}) call.ignore(name);
  const int64_t most = call.integer("maximum", kUnbounded);
  const Carried carried = carried_from(call, 0);
  const ImportedBody condition = call.body("cond", carried.types), body = call.body("body", carried.types);
  if (!condition.written.empty()) call.unsupported("a condition that assigns a variable");
  if (condition.graph->outputs().size() != 1)
    wrong_graph(fmt::format("wrong number of outputs: the condition of {} gives {} values; it is one boolean",
                            call.described(), condition.graph->outputs().size()));
  check_condition(call, condition.graph->outputs()[0]->type(), "the condition");
  Loop loop(call, carried.values, body);
  const auto known = known_rounds(*condition.graph, *body.graph, carried.constants);
  const int64_t trip = std::max<int64_t>(std::min(known ? known->count : most, most), 0);
  note_rounds(call, trip);
  if (known || trip == 0) {
    loop.finish(trip == 0 ? loop.starts() : loop.emit(trip, nullptr));
    if (known && trip == known->count)
      for (const auto& [i, end] : known->ends) call.set_constant(i, end);
    return;
  }
  loop.also_reads(condition);
  const Loop::GoesOn goes_on = [&](ir::Builder& builder, ir::Value* index, const GraphValues& values,
                                   const GraphValues& stays) {
    GraphValues arguments(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(loop.declared()));
    for (ir::Value* value : loop.handed(builder, condition, values, stays, index)) arguments.push_back(value);
    ir::Value* says = builder.call(condition.graph, arguments)[0];
    return says->type().shape.empty() ? says : build(builder, "reshape", {says}, {{"shape", Shape{}}});
  };
  loop.finish(loop.emit_if(goes_on(call.builder(), nullptr, loop.starts(), loop.stays()), most, goes_on));
}

// --- If, Case, calls

void set_branches(NodeImportCall& call, const GraphValues& conditions, const std::vector<std::string>& names,
                  const Carried& arguments) {
  std::vector<ImportedBody> bodies;
  for (const std::string& name : names) {
    ImportedBody& body = bodies.emplace_back(call.body(name, arguments.types));
    // They are captured as what the graph reads without saying so.
    body.captured.insert(body.captured.begin(), arguments.values.begin(), arguments.values.end());
    body.names.insert(body.names.begin(), arguments.values.size(), "");
    for (int& written : body.written) written += static_cast<int>(arguments.values.size());
  }
  const auto declared = [&](size_t b) {
    return bodies[b].graph->outputs().size() - bodies[b].written.size();
  };
  for (size_t b = 1; b < bodies.size(); ++b) {
    if (declared(0) != declared(b))
      wrong_graph(fmt::format("branches of different lengths: '{}' of {} gives {} values, '{}' {}", names[0],
                              call.described(), declared(0), names[b], declared(b)));
    for (size_t i = 0; i < declared(0); ++i)
      if (const ir::Type& first = bodies[0].graph->outputs()[i]->type(),
          &other = bodies[b].graph->outputs()[i]->type();
          first != other)
        wrong_graph(fmt::format("branches of different types: output {} of {} is {} in '{}' and {} in '{}'",
                                i, call.described(), to_string(first), names[0], to_string(other), names[b]));
  }
  set_results(call, branch(call, conditions, bodies));
}

// The only branch that can run is part of the graph around it.
void set_only(NodeImportCall& call, const std::vector<std::string>& names, size_t chosen,
              const Carried& arguments) {
  for (const std::string& name : names)
    if (name != names[chosen]) call.ignore(name);
  set_results(call, run_once(call, call.body(names[chosen], arguments.types), arguments.values));
}

void import_if(NodeImportCall& call) {
  for (const char* name : {"Tcond", "Tin", "Tout", "output_shapes"}) call.ignore(name);
  const Carried arguments = carried_from(call, 1);
  const std::vector<std::string> names{"then", "else"};
  if (const ConstantPtr stated = call.constant(0); stated != nullptr && !call.is_variable(0))
    return set_only(call, names, reals_of(*stated).at(0) != 0.0 ? 0 : 1, arguments);
  // TensorFlow takes any number.
  ir::Value* condition = call.operand(0);
  if (condition->type().dtype != DType::kBool && condition->type().elements() == 1)
    condition = call.cast(condition, DType::kBool);
  set_branches(call, {condition_of(call, condition, "the condition")}, names, arguments);
}

constexpr int64_t kMostBranches = 10'000;

// The branch of the index, or the last where there is none of it.
void import_case(NodeImportCall& call) {
  for (const char* name : {"Tin", "Tout", "output_shapes"}) call.ignore(name);
  const Carried arguments = carried_from(call, 1);
  std::vector<std::string> names;
  const int64_t last = call.integer("branches") - 1;
  if (last < 0 || last > kMostBranches)
    wrong_graph(fmt::format("value out of range: {} has {} branches", call.described(), last + 1));
  for (int64_t b = 0; b <= last; ++b) names.push_back(fmt::format("branch{}", b));
  const ConstantPtr stated = call.is_variable(0) ? nullptr : call.constant(0);
  if (stated != nullptr || last == 0) {
    const int64_t index = stated == nullptr ? last : integers_of(*stated).at(0);
    return set_only(call, names, static_cast<size_t>(index < 0 || index > last ? last : index), arguments);
  }
  ir::Value* index = call.operand(0);
  if (!is_integer(index->type().dtype) || index->type().elements() != 1)
    wrong_graph(fmt::format("dtype mismatch: the index of {} is {}; it is one integer", call.described(),
                            to_string(index->type())));
  index = reshaped(call, call.cast(index, DType::kI32), {});
  GraphValues conditions;
  for (int64_t b = 0; b < last; ++b)
    conditions.push_back(
        call.op("equal", {index, call.builder().scalar(DType::kI32, static_cast<double>(b))}));
  set_branches(call, conditions, names, arguments);
}

void import_call(NodeImportCall& call) {
  for (const char* name : {"Tin", "Tout", "config", "config_proto", "executor_type"}) call.ignore(name);
  const Carried arguments = carried_from(call, 0);
  set_results(call, run_once(call, call.body("f", arguments.types), arguments.values));
}

struct GraphImporters {
  GraphImporters() {
    for (const char* type : {"While", "StatelessWhile"}) register_tensorflow_importer(type, import_while);
    for (const char* type : {"If", "StatelessIf"}) register_tensorflow_importer(type, import_if);
    for (const char* type : {"Case", "StatelessCase"}) register_tensorflow_importer(type, import_case);
    for (const char* type : {"PartitionedCall", "StatefulPartitionedCall"})
      register_tensorflow_importer(type, import_call);
    register_tensorflow_importer("Repeat", import_repeat, kIpu);
  }
};
const GraphImporters graph_importers;

}  // namespace
}  // namespace ipu::ops
