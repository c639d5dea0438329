// The rules of a legal module, one function per kind of op or table. Linear in the module; graphs that call
// each other are walked without recursion, so a deep chain of calls is no danger.
#include "ir/verifier.h"

#include <unordered_map>
#include <unordered_set>

#include "ir/replicas.h"
#include "ir/structure.h"
#include "ir/text.h"
#include "support/error.h"

namespace ipu::ir {
namespace {

std::string at(const std::string& name) { return "@" + name; }
std::string number(int64_t n) { return std::to_string(n); }

// Whether the elements of a shape can be counted and cut into `parts`.
bool has_size(const Shape& shape, int64_t parts) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return false;
  return !__builtin_add_overflow(count, parts, &count);
}

class Verifier {
 public:
  Verifier(const Module& module, Form form) : module_(module), form_(form) {}

  std::vector<Violation> run() {
    tables();
    entry_points();
    for (const auto& graph : module_.graphs()) check(*graph);
    recursion();
    return std::move(found_);
  }

 private:
  void report(std::string what) {
    if (op_ != nullptr && op_ != described_) {
      PrintOptions brief;
      brief.origins = false;
      brief.max_constant_elements = 16;
      description_ = print(*op_, brief);
      if (description_.size() > 400) description_ = description_.substr(0, 400) + "...";
      described_ = op_;
    }
    found_.push_back({graph_ ? graph_->name() : "", op_ ? description_ : "", std::move(what)});
  }

  // --- tables
  // -------------------------------------------------------------------------------------------------

  void tables() {
    replicas_ = replica_count(module_);
    for (const char* name : {"replicas", "processes"}) {
      const Attribute* value = module_.attributes.find(name);
      const int64_t* n = value ? std::get_if<int64_t>(value) : nullptr;
      if (value != nullptr && (n == nullptr || *n < 1 || replicas_ % *n != 0)) {
        report(std::string("module attribute '") + name +
               "' is an integer of at least 1 that divides the replicas");
        replicas_ = 1;
      }
    }
    for (const RemoteBuffer& b : module_.remote_buffers())
      if (b.entries < 1) report("remote buffer " + at(b.name) + " has " + number(b.entries) + " entries");
    for (const Variable& v : module_.variables()) variable(v);
    for (const Stream& s : module_.streams())
      if (s.period < 1) report("stream " + at(s.name) + " has period " + number(s.period));
    for (const Ring& r : module_.rings())
      if (r.capacity < 1) report("ring " + at(r.name) + " has capacity " + number(r.capacity));
  }

  void variable(const Variable& v) {
    std::string name = "variable " + at(v.name);
    if (v.shard_over < 1) return report(name + " is sharded over " + number(v.shard_over) + " replicas");
    if (v.grouping.stride < 1 || v.grouping.size < 0)
      return report(name + " has a grouping of stride " + number(v.grouping.stride) + " and size " +
                    number(v.grouping.size));
    if (v.shard_over > 1 && !has_size(v.meta_shape, v.shard_over))
      return report(name + " has no unsharded size: " + to_string(Type{v.type.dtype, v.meta_shape}) +
                    " over " + number(v.shard_over) + " replicas");
    if (v.shard_over > 1 && v.type.shape != Shape{shard_elements(v.meta_shape, v.shard_over)})
      report(name + " is " + to_string(v.type) + ", a shard of " +
             to_string(Type{v.type.dtype, v.meta_shape}) + " over " + number(v.shard_over) + " replicas is " +
             to_string(Type{v.type.dtype, {shard_elements(v.meta_shape, v.shard_over)}}));
    replicas(v, name);
    if (v.remote_buffer.empty()) return;
    const RemoteBuffer* buffer = module_.find_remote_buffer(v.remote_buffer);
    if (buffer == nullptr)
      return report(name + " lives in remote buffer " + at(v.remote_buffer) + ", which does not exist");
    if (buffer->type != v.type)
      report(name + " is " + to_string(v.type) + ", an entry of " + at(buffer->name) + " is " +
             to_string(buffer->type));
    if (v.remote_entry < 0 || v.remote_entry >= buffer->entries)
      report(name + " lives in entry " + number(v.remote_entry) + " of " + at(buffer->name) + ", which has " +
             number(buffer->entries));
  }

  // Groups and shards, where the module says how many replicas there are.
  void replicas(const Variable& v, const std::string& name) {
    const bool is_counted = module_.attributes.has("replicas");
    if (is_counted) {
      std::string problem = grouping_problem(v.grouping, replicas_);
      if (!problem.empty()) return report(name + ": its grouping " + problem);
      const auto size = static_cast<int64_t>(groups_of(v.grouping, replicas_)[0].size());
      if (size % v.shard_over != 0)
        report(name + " is sharded over " + number(v.shard_over) + " replicas of a group of " + number(size));
    }
    if (v.initial == nullptr) return;
    const Shape& given = v.initial->shape;
    const bool fits =
        (v.shard_over == 1 && given == v.type.shape) ||
        (is_counted ? given == host_shape(v, replicas_) : v.shard_over > 1 && given == v.meta_shape);
    if (v.initial->dtype != v.type.dtype || !fits)
      report(name + " is " + to_string(v.type) + ", its initial value " +
             to_string(Type{v.initial->dtype, given}));
  }

  void entry_points() {
    for (const auto& [name, graph_name] : module_.entry_points) {
      const Graph* graph = module_.find_graph(graph_name);
      if (graph == nullptr) {
        report("entry point '" + name + "' is " + at(graph_name) + ", which does not exist");
        continue;
      }
      entry_graphs_.insert(graph);
      if (!graph->inputs().empty())
        report("entry graph " + at(graph_name) + " has inputs; it is run without arguments");
    }
  }

  // --- graphs
  // -------------------------------------------------------------------------------------------------

  void check(const Graph& graph) {
    graph_ = &graph;
    if (form_ == Form::kFunctional)
      for (const Value* input : graph.inputs())
        if (input->by_reference)
          report("input %" + input->name() + " is by reference; the functional form has none");
    seen_.clear();
    for (const auto& op : graph.ops()) {
      op_ = op.get();
      check_op(*op);
      seen_.insert(op_);
    }
    op_ = nullptr;
    graph_ = nullptr;
  }

  void check_op(const Op& op) {
    for (int i = 0; i < op.operand_count(); ++i) {
      const Value* value = op.operand(i);
      if (value != nullptr && value->producer() != nullptr && !seen_.contains(value->producer()))
        report("operand " + number(i) + ", %" + value->name() + ", is defined later");
    }
    for (const Op* earlier : op.after) {
      if (earlier->graph() != op.graph())
        report("is ordered after an op of another graph");
      else if (!seen_.contains(earlier))
        report("is ordered after an op that is listed later");
    }
    if (form_ == Form::kFunctional) {
      if (!op.after.empty()) report("has order edges; the functional form has none");
      if (op.attributes.has("modified")) report("modifies its operands; the functional form has no writes");
      if (op.is(kind::kWrite)) report("writes to a value; the functional form has no writes");
    }
    if (!is_structural(op)) return;
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) == nullptr) return report("operand " + number(i) + " is absent");
    structural(op);
  }

  void structural(const Op& op) {
    using namespace kind;
    if (is_call(op))
      call(op);
    else if (op.is(kLoop))
      loop(op);
    else if (op.is(kIf))
      branch(op);
    else if (op.is(kPipeline))
      pipeline(op);
    else if (op.is(kVariableRead) || op.is(kVariableAssign))
      variable_access(op);
    else if (op.is(kHostLoad) || op.is(kHostStore))
      host_access(op);
    else if (op.is(kRingPush) || op.is(kRingPop))
      ring_access(op);
    else if (op.is(kIpuCopy))
      ipu_copy(op);
    else if (op.is(kRemoteLoad) || op.is(kRemoteStore))
      remote_access(op);
    else if (op.is(kConstant))
      constant(op);
    else if (op.is(kRngContext) && counts(op, 0, 1) && op.result()->type() != Type{DType::kU32, {2}})
      report("the result is u32[2]");
    else if (op.is(kReplicaIndex) && counts(op, 0, 1) && op.result()->type() != Type{DType::kI32, {}})
      report("the result is i32[]");
    else if (op.is(kWrite))
      write(op);
    else if (op.is(kCodeLoad))
      code_load(op);
  }

  // --- calls
  // --------------------------------------------------------------------------------------------------

  void call(const Op& op) {
    const Graph* callee = graph_of(op, "callee");
    if (callee == nullptr) return;
    arguments(op, 0, *callee, 0);
    results(op, *callee, 0);
    modified(op);
    if (!op.is(kind::kMultiExchange)) return;
    for (const auto& inner : callee->ops())
      if (!is_transfer(*inner) && !inner->is(kind::kConstant))
        return report("merges '" + inner->kind() + "' of " + at(callee->name()) +
                      "; an exchange holds transfers to and from the host and streaming memory only");
  }

  void code_load(const Op& op) {
    const Graph* graph = graph_of(op, "graph");
    if (!counts(op, 0, 0) || graph == nullptr) return;
    if (graph == graph_) report("loads the code of the graph it is in");
    const Attribute* value = op.attributes.find("destination");
    const auto* destination = value ? std::get_if<std::string>(value) : nullptr;
    if (value != nullptr && (destination == nullptr || *destination != "executable"))
      report("attribute 'destination' is \"executable\"");
    if (op.settings.tile_set == TileSet::kIo) report("loads code to I/O tiles, which run none");
  }

  void modified(const Op& op) {
    const Attribute* marks = op.attributes.find("modified");
    if (marks == nullptr) return;
    const auto* indices = std::get_if<std::vector<int64_t>>(marks);
    if (indices == nullptr) return report("attribute 'modified' is a list of operand numbers");
    for (int64_t i : *indices)
      if (i < 0 || i >= op.operand_count()) report("modified operand " + number(i) + " does not exist");
  }

  void loop(const Op& op) {
    const Graph* body = graph_of(op, "body");
    int64_t carried = carried_count(op);
    if (!integer(op, "trip", 0) || body == nullptr || carried < 0) return;
    loop_body(op, *body, carried, flag(op, "while") ? 1 : 0);
    modified(op);
  }

  void loop_body(const Op& op, const Graph& body, int64_t carried, int64_t leading) {
    index_input(body);
    arguments(op, 0, body, 1);
    if (leading == 1 && (body.outputs().empty() || body.outputs()[0]->type() != Type{DType::kBool, {}}))
      return report("with 'while' the first output of " + at(body.name()) + " is bool[]");
    if (static_cast<int64_t>(body.outputs().size()) != carried + leading)
      return report(at(body.name()) + " has " + number(static_cast<int64_t>(body.outputs().size())) +
                    " outputs; " + number(carried + leading) + " are needed");
    carried_types(op, body, carried, leading);
    carried_results(op, carried);
  }

  void index_input(const Graph& body) {
    if (body.inputs().empty() || body.inputs()[0]->type() != Type{DType::kI32, {}})
      report("the first input of " + at(body.name()) + " is the index, i32[]");
  }
  void carried_types(const Op& op, const Graph& body, int64_t carried, int64_t leading) {
    for (int64_t i = 0; i < carried; ++i) {
      const Type& in = op.operand(static_cast<int>(i))->type();
      const Type& out = body.outputs()[static_cast<size_t>(i + leading)]->type();
      if (in != out)
        report("carried value " + number(i) + " is " + to_string(in) + ", and " + at(body.name()) +
               " returns " + to_string(out));
    }
  }
  void carried_results(const Op& op, int64_t carried) {
    if (op.result_count() != carried)
      return report("has " + number(op.result_count()) + " results and " + number(carried) +
                    " carried values");
    for (int i = 0; i < op.result_count(); ++i)
      if (op.result(i)->type() != op.operand(i)->type())
        report("result " + number(i) + " is " + to_string(op.result(i)->type()) + ", the carried value " +
               to_string(op.operand(i)->type()));
  }

  void branch(const Op& op) {
    const Graph* then_graph = graph_of(op, "then");
    const Graph* else_graph = graph_of(op, "else");
    if (op.operand_count() == 0 || op.operand(0)->type() != Type{DType::kBool, {}})
      return report("operand 0 is the condition, bool[]");
    for (const Graph* graph : {then_graph, else_graph}) {
      if (graph == nullptr) continue;
      arguments(op, 1, *graph, 0);
      results(op, *graph, 0);
    }
  }

  // Every stage takes (index, carried, invariant, flows of all earlier stages) and returns (carried, its
  // flows).
  void pipeline(const Op& op) {
    const Attribute* value = op.attributes.find("stages");
    const auto* names = value ? std::get_if<std::vector<Symbol>>(value) : nullptr;
    int64_t carried = carried_count(op);
    if (names == nullptr || names->empty()) return report("attribute 'stages' is a list of graphs");
    if (!integer(op, "micro_batches", 1) || carried < 0) return;
    const Attribute* kind = op.attributes.find("schedule");
    const auto* schedule = kind ? std::get_if<std::string>(kind) : nullptr;
    if (kind != nullptr && (schedule == nullptr || (*schedule != "grouped" && *schedule != "interleaved" &&
                                                    *schedule != "sequential")))
      report("attribute 'schedule' is \"grouped\", \"interleaved\" or \"sequential\"");
    std::vector<const Value*> flows;
    for (const Symbol& name : *names) {
      const Graph* stage = module_.find_graph(name.name);
      if (stage == nullptr) return report("stage " + at(name.name) + " does not exist");
      index_input(*stage);
      arguments(op, 0, *stage, 1, static_cast<int>(flows.size()));
      if (static_cast<int64_t>(stage->outputs().size()) < carried)
        return report("stage " + at(name.name) + " returns fewer than the " + number(carried) +
                      " carried values");
      size_t first_flow = static_cast<size_t>(op.operand_count()) + 1;
      for (size_t i = 0; i < flows.size() && first_flow + i < stage->inputs().size(); ++i)
        if (stage->inputs()[first_flow + i]->type() != flows[i]->type())
          report("flow " + number(static_cast<int64_t>(i)) + " is " + to_string(flows[i]->type()) +
                 ", and stage " + at(name.name) + " takes " +
                 to_string(stage->inputs()[first_flow + i]->type()));
      carried_types(op, *stage, carried, 0);
      flows.insert(flows.end(), stage->outputs().begin() + carried, stage->outputs().end());
    }
    carried_results(op, carried);
  }

  // Operands from `first` on are the inputs of `callee` from `skip` on; `extra` inputs more come from
  // elsewhere.
  void arguments(const Op& op, int first, const Graph& callee, int skip, int extra = 0) {
    int given = op.operand_count() - first, taken = static_cast<int>(callee.inputs().size()) - skip - extra;
    if (given != taken)
      return report("passes " + number(given) + " values, and " + at(callee.name()) + " takes " +
                    number(taken));
    for (int i = 0; i < given; ++i) {
      const Type& from = op.operand(first + i)->type();
      const Type& to = callee.inputs()[static_cast<size_t>(skip + i)]->type();
      if (from != to)
        report("operand " + number(first + i) + " is " + to_string(from) + ", and input " + number(skip + i) +
               " of " + at(callee.name()) + " is " + to_string(to));
    }
  }
  void results(const Op& op, const Graph& callee, size_t skip) {
    size_t returned = callee.outputs().size() - skip;
    if (static_cast<size_t>(op.result_count()) != returned)
      return report("has " + number(op.result_count()) + " results, and " + at(callee.name()) + " returns " +
                    number(static_cast<int64_t>(returned)));
    for (int i = 0; i < op.result_count(); ++i) {
      const Type& to = op.result(i)->type();
      const Type& from = callee.outputs()[skip + static_cast<size_t>(i)]->type();
      if (from != to)
        report("result " + number(i) + " is " + to_string(to) + ", and output " + number(i) + " of " +
               at(callee.name()) + " is " + to_string(from));
    }
  }

  // --- tables and transfers
  // -----------------------------------------------------------------------------------

  void variable_access(const Op& op) {
    const std::string* name = symbol(op, "variable");
    if (name == nullptr) return;
    const Variable* v = module_.find_variable(*name);
    if (v == nullptr) return report("variable " + at(*name) + " does not exist");
    if (!entry_graphs_.contains(graph_))
      report("only entry graphs touch variables; pass the value of " + at(*name) + " as an input");
    transfer(op, op.is(kind::kVariableRead), v->type, "variable " + at(*name));
  }

  void host_access(const Op& op) {
    const std::string* name = symbol(op, "stream");
    if (name == nullptr) return;
    const Stream* s = module_.find_stream(*name);
    if (s == nullptr) return report("stream " + at(*name) + " does not exist");
    bool load = op.is(kind::kHostLoad);
    if (load != (s->direction == StreamDirection::kHostToDevice))
      report("stream " + at(*name) + " goes from " + (load ? "device to host" : "host to device"));
    transfer(op, load, s->type, "stream " + at(*name));
  }

  void ring_access(const Op& op) {
    const std::string* name = symbol(op, "ring");
    if (name == nullptr) return;
    const Ring* r = module_.find_ring(*name);
    if (r == nullptr) return report("ring " + at(*name) + " does not exist");
    transfer(op, op.is(kind::kRingPop), r->type, "ring " + at(*name));
  }

  // One result of the table's type, or one operand of it.
  void transfer(const Op& op, bool reads, const Type& type, const std::string& table) {
    if (!counts(op, reads ? 0 : 1, reads ? 1 : 0)) return;
    const Type& own = reads ? op.result()->type() : op.operand(0)->type();
    if (own != type) report(table + " is " + to_string(type) + ", the value " + to_string(own));
  }

  void ipu_copy(const Op& op) {
    if (!counts(op, 1, 1) || !integer(op, "from", 0) || !integer(op, "to", 0)) return;
    same(op, op.operand(0)->type(), op.result()->type());
  }

  void remote_access(const Op& op) {
    const std::string* name = symbol(op, "buffer");
    if (name == nullptr) return;
    const RemoteBuffer* buffer = module_.find_remote_buffer(*name);
    if (buffer == nullptr) return report("remote buffer " + at(*name) + " does not exist");
    bool load = op.is(kind::kRemoteLoad);
    int data = load ? 0 : 1;
    bool has_offset = op.operand_count() == data + 1;
    if (!counts(op, data + (has_offset ? 1 : 0), load ? 1 : 0)) return;
    const Type& own = load ? op.result()->type() : op.operand(0)->type();
    if (own != buffer->type)
      report("an entry of " + at(*name) + " is " + to_string(buffer->type) + ", the value " + to_string(own));
    if (has_offset) {
      const Type& offset = op.operand(data)->type();
      if ((offset.dtype != DType::kI32 && offset.dtype != DType::kU32) || offset.elements() != 1)
        report("the offset is one i32 or u32");
    } else if (integer(op, "entry", 0) && op.attributes.integer("entry") >= buffer->entries) {
      report("entry " + number(op.attributes.integer("entry")) + " of " + at(*name) + ", which has " +
             number(buffer->entries));
    }
  }

  void constant(const Op& op) {
    if (!counts(op, 0, 1)) return;
    const Attribute* value = op.attributes.find("value");
    const auto* data = value ? std::get_if<ConstantPtr>(value) : nullptr;
    if (data == nullptr || *data == nullptr) return report("attribute 'value' is dense<...>");
    same(op, Type{(*data)->dtype, (*data)->shape}, op.result()->type());
  }

  // write(target, source) {starts, sizes, steps}: the region of target, all of it without attributes, takes
  // source.
  void write(const Op& op) {
    if (!counts(op, 2, 0)) return;
    const Type& target = op.operand(0)->type();
    Type region = target;
    for (const char* name : {"starts", "sizes", "steps"}) {
      const Attribute* value = op.attributes.find(name);
      if (value == nullptr && !op.attributes.has("sizes")) continue;
      const auto* list = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
      if (list == nullptr || list->size() != target.shape.size())
        return report(std::string("attribute '") + name + "' is a list of " +
                      number(static_cast<int64_t>(target.shape.size())) + " integers");
      if (std::string_view(name) == "sizes") region.shape = *list;
    }
    if (op.operand(1)->type() != region)
      report("the region is " + to_string(region) + ", the source " + to_string(op.operand(1)->type()));
  }

  // --- attributes and counts
  // ----------------------------------------------------------------------------------

  bool counts(const Op& op, int operands, int results) {
    if (op.operand_count() == operands && op.result_count() == results) return true;
    report("takes " + number(operands) + " operands and gives " + number(results) + " results, not " +
           number(op.operand_count()) + " and " + number(op.result_count()));
    return false;
  }
  void same(const Op& op, const Type& from, const Type& to) {
    if (from != to) report("turns " + to_string(from) + " into " + to_string(to));
  }
  bool flag(const Op& op, std::string_view name) {
    const Attribute* value = op.attributes.find(name);
    const bool* set = value ? std::get_if<bool>(value) : nullptr;
    if (value != nullptr && set == nullptr) report("attribute '" + std::string(name) + "' is true or false");
    return set != nullptr && *set;
  }
  bool integer(const Op& op, std::string_view name, int64_t least) {
    const Attribute* value = op.attributes.find(name);
    const int64_t* n = value ? std::get_if<int64_t>(value) : nullptr;
    if (n != nullptr && *n >= least) return true;
    report("attribute '" + std::string(name) + "' is an integer of at least " + number(least));
    return false;
  }
  int64_t carried_count(const Op& op) {  // -1: reported
    if (!integer(op, "carried", 0)) return -1;
    int64_t carried = op.attributes.integer("carried");
    if (carried <= op.operand_count()) return carried;
    report("carries " + number(carried) + " values and has " + number(op.operand_count()) + " operands");
    return -1;
  }
  const std::string* symbol(const Op& op, std::string_view name) {
    const Attribute* value = op.attributes.find(name);
    const auto* s = value ? std::get_if<Symbol>(value) : nullptr;
    if (s != nullptr) return &s->name;
    report("attribute '" + std::string(name) + "' is a symbol such as @x");
    return nullptr;
  }
  const Graph* graph_of(const Op& op, std::string_view name) {
    const std::string* graph_name = symbol(op, name);
    if (graph_name == nullptr) return nullptr;
    const Graph* graph = module_.find_graph(*graph_name);
    if (graph == nullptr) report("graph " + at(*graph_name) + " does not exist");
    return graph;
  }

  // --- calls between graphs
  // -----------------------------------------------------------------------------------

  // Depth first with a stack of its own. An edge back to a graph still on the stack closes a cycle.
  void recursion() {
    struct Frame {
      const Graph* graph;
      std::vector<const Graph*> callees;
      size_t next = 0;
    };
    std::unordered_map<const Graph*, bool> on_stack;
    for (const auto& start : module_.graphs()) {
      if (on_stack.contains(start.get())) continue;
      std::vector<Frame> stack;
      auto enter = [&](const Graph* graph) {
        on_stack[graph] = true;
        stack.push_back({graph, callees(*graph)});
      };
      enter(start.get());
      while (!stack.empty()) {
        Frame& top = stack.back();
        if (top.next == top.callees.size()) {
          on_stack[top.graph] = false;
          stack.pop_back();
          continue;
        }
        const Graph* callee = top.callees[top.next++];
        if (entry_graphs_.contains(callee)) {
          graph_ = top.graph;
          report("calls the entry graph " + at(callee->name()));
        }
        auto known = on_stack.find(callee);
        if (known == on_stack.end()) {
          enter(callee);
        } else if (known->second) {
          graph_ = top.graph;
          report("calls " + at(callee->name()) + ", which leads back here: graphs do not recurse");
        }
        graph_ = nullptr;
      }
    }
  }
  std::vector<const Graph*> callees(const Graph& graph) {
    std::vector<const Graph*> list;
    std::unordered_set<const Graph*> listed;
    for (const auto& op : graph.ops())
      for (const Graph* callee : called_graphs(*op))
        if (listed.insert(callee).second) list.push_back(callee);
    return list;
  }

  const Module& module_;
  Form form_;
  int64_t replicas_ = 1;
  std::vector<Violation> found_;
  std::unordered_set<const Graph*> entry_graphs_;
  const Graph* graph_ = nullptr;
  const Op* op_ = nullptr;
  const Op* described_ = nullptr;  // whose text is in description_
  std::string description_;
  std::unordered_set<const Op*> seen_;  // ops of this graph listed so far
};

}  // namespace

std::vector<Violation> find_violations(const Module& module, Form form) {
  return Verifier(module, form).run();
}

std::string describe(const std::vector<Violation>& violations) {
  std::string text = "invalid IR: " + std::to_string(violations.size()) +
                     (violations.size() == 1 ? " violation." : " violations.");
  for (const Violation& v : violations) {
    text += "\n  ";
    if (!v.graph.empty()) text += "@" + v.graph + ": ";
    text += v.what + ".";
    if (!v.op.empty()) text += "\n    " + v.op;
  }
  return text;
}

void verify(const Module& module, Form form) {
  std::vector<Violation> violations = find_violations(module, form);
  if (!violations.empty()) throw Error(ErrorCode::kInvalidIr, describe(violations));
}

}  // namespace ipu::ir
