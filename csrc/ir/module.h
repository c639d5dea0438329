// The data structure of the IR: Module, Graph, Op, Value, and the tables a module owns.
// One structure, two legal forms (authored, functional) and one text (docs/ir.md). No meaning of ops is known
// here, except of the few structural ones in structure.h; definitions are in ops/. Ownership: a Module owns
// its graphs and tables, a Graph owns its values and ops; their memory lies in pools of the module. Pointers to
// them are stable until the thing itself is erased. All edits are O(1) in the size of the graph unless said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/settings.h"
#include "ir/tables.h"
#include "ir/type.h"
#include "support/attributes.h"
#include "support/inline_vector.h"
#include "support/intrusive_list.h"
#include "support/pool.h"
#include "support/replica_grouping.h"

namespace ipu::ops {
struct OpDef;
}

namespace ipu::ir {

class Graph;
class Module;
class Op;
struct StructuralKind;  // structure.h

// One reading of a value: operand `index` of `user`. Graph outputs are not uses; see Value::is_output().
struct Use {
  Op* user;
  int index;
};

// An SSA value: a graph input or one result of an op. Names are unique within the graph, deterministic, and
// survive rewrites (anchors depend on them).
class Value {
 public:
  const std::string& name() const { return name_; }
  const Type& type() const { return *type_; }
  void set_type(const Type& type);
  Op* producer() const { return producer_; }  // nullptr for a graph input
  int index() const { return index_; }        // result number, or input number
  Graph* graph() const { return graph_; }
  std::span<const Use> uses() const { return uses_; }
  int output_count() const { return output_count_; }  // how often the graph returns it
  bool is_output() const { return output_count_ > 0; }
  bool is_unused() const { return uses_.empty() && output_count_ == 0; }
  // Readers of this value now read `other` (same type unless the caller fixes it); graph outputs included.
  // O(uses).
  void replace_all_uses_with(Value* other);

  // For graph inputs: placement (IPU within the replica) and whether the callee may write through it
  // (authored form).
  std::optional<int> ipu;
  bool by_reference = false;

 private:
  friend class Graph;
  friend class Op;
  Value() = default;
  const Type* type_ = nullptr;  // of the module's table
  Op* producer_ = nullptr;
  Graph* graph_ = nullptr;
  int index_ = 0;
  int output_count_ = 0;
  std::string name_;
  InlineVector<Use, 2> uses_;
};

// The order edges of one op: the ops of the same graph that run before it (authored form). Reads like a list of
// them. Each edge is known at both ends, so no edge outlives an op: see Graph::erase. All edits are O(1).
class OrderEdges {
  struct Edge {
    Op* op;
    size_t twin;  // position of this edge in the other list of `op`
  };

 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Op*;
    using difference_type = std::ptrdiff_t;
    using pointer = Op* const*;
    using reference = Op*;
    Iterator() = default;
    explicit Iterator(const Edge* at) : at_(at) {}
    Op* operator*() const { return at_->op; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    const Edge* at_ = nullptr;
  };

  OrderEdges(const OrderEdges&) = delete;
  OrderEdges& operator=(const OrderEdges&) = delete;
  Iterator begin() const { return Iterator(earlier().data()); }
  Iterator end() const { return Iterator(earlier().data() + earlier().size()); }
  size_t size() const { return earlier().size(); }
  bool empty() const { return lists_ == nullptr || lists_->earlier.empty(); }
  Op* operator[](size_t i) const { return earlier()[i].op; }
  void push_back(Op* earlier);  // IPU_CHECK: another op of the same graph
  void clear();
  bool has_later() const {
    return lists_ != nullptr && !lists_->later.empty();
  }  // is an op ordered after this one?

 private:
  friend class Graph;
  friend class Op;
  struct Lists {
    std::vector<Edge> earlier, later;
  };
  explicit OrderEdges(Op* owner) : owner_(owner) {}
  Lists& lists() {
    if (lists_ == nullptr) lists_ = std::make_unique<Lists>();
    return *lists_;
  }
  std::span<const Edge> earlier() const {
    return lists_ == nullptr ? std::span<const Edge>() : std::span<const Edge>(lists_->earlier);
  }
  void unlink(size_t i);  // the edge of earlier()[i]; the last edge takes its place
  Op* owner_;
  std::unique_ptr<Lists> lists_;  // nullptr: no edges, as nearly everywhere
};

// An operation. `kind` names a definition in ops/ ("matmul"), a structural op (structure.h), or something
// unknown (opaque: parses, prints, verifies structurally, cannot run).
class Op : private ListLinks<Op> {
  struct Operand {
    Value* value = nullptr;
    size_t use = 0;  // position in value->uses_
  };
  struct Kind {
    std::string name;
    const StructuralKind* structure;
    mutable std::atomic<const ops::OpDef*> definition = nullptr;
  };
  // First what sweeps over a graph read.
  const Kind* kind_ = nullptr;
  Graph* graph_ = nullptr;
  InlineVector<Operand, 3> operands_;
  InlineVector<Value*, 1> results_;
  int64_t id_ = 0;
  int64_t number_ = 0;  // place in the list, when graph_->is_numbered_

 public:
  const std::string& kind() const { return kind_->name; }  // interned: equal kinds share one string object
  bool is(std::string_view kind) const { return kind_->name == kind; }
  const StructuralKind* structure() const { return kind_->structure; }  // nullptr: not a structural op
  // Caches for ops::definition() the definition of this op's kind. Nothing else uses it.
  std::atomic<const ops::OpDef*>& found_definition() const { return kind_->definition; }
  int64_t id() const { return id_; }  // stable within the graph, never reused
  Graph* graph() const { return graph_; }

  int operand_count() const { return static_cast<int>(operands_.size()); }
  Value* operand(int i) const { return operands_[i].value; }  // nullptr: an optional operand that is absent
  void set_operand(int i, Value* value);
  void append_operand(Value* value);
  void erase_operand(int i);  // O(operands)
  int result_count() const { return static_cast<int>(results_.size()); }
  Value* result(int i = 0) const { return results_[i]; }
  Value* append_result(const Type& type, std::string_view name_hint = "");  // appended outputs of call sites
  void erase_result(int i);                                                 // IPU_CHECK: must be unused

  Attributes attributes;
  Settings settings;
  Location location;
  OriginPtr origin;
  OrderEdges after;

 private:
  friend class Graph;
  friend class Value;
  friend class IntrusiveList<Op>;
  Op() : after(this) {}
  static const Kind* intern(std::string_view kind);
  void unlink(int i);
};

// Order of `ops()` is one legal order of execution, not the schedule.
class Graph {
 public:
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  const std::string& name() const { return name_; }
  Module* module() const { return module_; }

  Value* add_input(const Type& type, std::string_view name_hint = "");
  void erase_input(int i);  // IPU_CHECK: must be unused. Call sites are the caller's business. O(inputs)
  const std::vector<Value*>& inputs() const { return inputs_; }
  // Returns its index. Legal after the graph was called: call sites keep the results they have until
  // complete_calls (regions.h) gives them the new ones.
  int append_output(Value* value);
  void set_output(int i, Value* value);
  void erase_output(int i);
  const std::vector<Value*>& outputs() const { return outputs_; }

  using OpList = IntrusiveList<Op>;
  const OpList& ops() const { return ops_; }
  size_t op_count() const { return ops_.size(); }
  // Creates an op before `before` (nullptr: at the end). Result names: hint, or %N; made unique.
  Op* create(std::string_view kind, std::span<Value* const> operands, Attributes attributes,
             std::span<const Type> result_types, Op* before = nullptr, std::string_view name_hint = "");
  // A copy of `op`, which may be of another graph, on `operands` of this one, before `before` (nullptr: at the
  // end): attributes, settings, location, origin. Results keep their names as hints; order edges stay behind.
  Op* copy(const Op& op, std::span<Value* const> operands, Op* before = nullptr);
  // IPU_CHECK: results unused. The order of the other ops among each other stays as it was: what was ordered
  // after `op` is now ordered after what `op` was ordered after. Where that would make more than 64 edges, the
  // last listed of the earlier ops becomes the meeting point: the later ops are ordered after it, and it after
  // the other earlier ones. So an erasure costs O(operands + results + edges), and edges do not pile up.
  void erase(Op* op);
  void move_before(Op* op, Op* before);  // nullptr: to the end
  // Moves the ops of `from` here, before `before` (nullptr: at the end), and returns its outputs. All becomes as if
  // they were copied: `from` is a graph of this module without order edges whose inputs stand for `arguments`,
  // names are made unique, ids are new. Only inputs are left of `from`; call sites are the caller's business.
  std::vector<Value*> take_over(Graph& from, std::span<Value* const> arguments, Op* before = nullptr);
  Op* next(const Op* op) const { return OpList::next(op); }  // nullptr at the end
  Op* previous(const Op* op) const { return OpList::previous(op); }
  void rename(Value* value, std::string_view name_hint);  // made unique
  Value* find_value(std::string_view name) const {
    return value_by_name_.find(name);
  }  // nullptr when unknown

  Attributes attributes;  // annotations of frontends and passes, printed in the header

 private:
  friend class Module;
  friend class Op;
  Graph() = default;
  Op* insert(const Op::Kind* kind, std::span<Value* const> operands, Op* before);
  Value* new_value(const Type& type, std::string_view name_hint);
  void release(Value* value);
  void destroy(Op* op);
  void destroy(Value* value);
  void bridge(Op* op);  // order edges around an op that goes
  Op* last_listed(const OrderEdges& edges);
  // Makes this empty graph a copy of `from`; names, ids and the order of uses are the same.
  void copy_contents(const Graph& from, std::unordered_map<const Value*, Value*>* values);
  std::string unique_name(std::string_view hint);
  std::string name_;
  Module* module_ = nullptr;
  std::vector<Value*> inputs_, outputs_;
  OpList ops_;
  NameTable value_by_name_;
  std::unordered_map<std::string, int> next_suffix_;
  int64_t next_op_id_ = 0;
  bool is_numbered_ = false;  // ops' numbers rise in order of the list; appending and erasing keep that
};

// --- tables of a module

enum class Retrieval : uint8_t { kOnePerGroup = 0, kAllReplicas = 2 };

// State that lives across runs. Only entry graphs touch variables (`variable.read`, `variable.assign`);
// callees get them as inputs.
struct Variable {
  std::string name;  // "fc.weight", "fc.weight.momentum"
  Type type;
  std::optional<int> ipu;
  std::string role = "parameter";  // parameter, buffer, optimizer_state, accumulator, constant
  ReplicaGrouping grouping;
  Retrieval retrieval = Retrieval::kOnePerGroup;
  Shape meta_shape;  // unsharded shape when shard_over > 1; else empty
  int64_t shard_over = 1;
  std::string remote_buffer;  // "" on chip; else the remote buffer and entry it lives in
  int64_t remote_entry = 0;
  ConstantPtr
      initial;  // nullptr: uploaded by the host (weights_from_host); 0-d: what every element starts with
  bool adopted = false;  // host storage belongs to the user, not to us
};

// Host stream: a queue object with a cursor of its own. Direction is seen from the device.
enum class StreamDirection : uint8_t { kHostToDevice, kDeviceToHost };
enum class OutputMode : uint8_t { kFinal = 0, kEveryN = 1, kAll = 2, kSum = 3 };
struct Stream {
  std::string name;
  StreamDirection direction = StreamDirection::kHostToDevice;
  Type type;                       // of one element (one micro-batch of one replica), as the device sees it
  DType host_dtype = DType::kF32;  // as the host gives or takes it (i64 is narrowed at this edge)
  OutputMode mode = OutputMode::kAll;  // which elements of a device-to-host stream come back
  int64_t period = 1;                  // EveryN: of so many blocks the last comes to the host
  int64_t block = 1;                   // EveryN: elements of a block (micro-batches of a device iteration)
  bool constant = false;  // the same element for every fetch of a run (streamed hyper-parameters)
  std::optional<int> ipu;
};

// First-in first-out queue between two pieces of a program: a stash when both ends are on one IPU, a channel
// otherwise. `ring.push` writes, `ring.pop` reads the oldest element.
struct Ring {
  std::string name;
  Type type;
  int64_t capacity = 1;
  int from_ipu = 0, to_ipu = 0;
};

struct RemoteBuffer {
  std::string name;
  Type type;  // of one entry
  int64_t entries = 1;
};

// A module: graphs by name, named entry points, tables. Deterministic iteration everywhere.
class Module {
 public:
  Module();
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Graph* add_graph(std::string_view name_hint);  // made unique
  Graph* find_graph(std::string_view name) const;
  void erase_graph(Graph* graph);
  const std::list<std::unique_ptr<Graph>>& graphs() const { return graphs_; }
  // A module with the same text that shares nothing with this one but constants, locations and origins, which
  // never change. Graphs have the same names, ops the same ids: handles made of them serve both. Linear.
  std::unique_ptr<Module> clone() const;
  // A copy of `graph`, of this module or another, under a new name, with its ops, ids, settings, locations and
  // order edges; graphs and tables it names are those of this module. `map` (optional) gets old → new values.
  Graph* clone_graph(const Graph& graph, std::string_view name_hint,
                     std::unordered_map<const Value*, Value*>* map = nullptr);

  // "main", "weights_from_host", "weights_to_host", "optimizer_from_host", ... → graph
  std::map<std::string, std::string> entry_points;

  // Tables in order of insertion; the find functions return nullptr when unknown.
  Variable& add_variable(Variable variable);  // name made unique
  Variable* find_variable(std::string_view name);
  const Variable* find_variable(std::string_view name) const;
  const std::list<Variable>& variables() const { return variables_; }
  std::list<Variable>& variables() { return variables_; }
  Stream& add_stream(Stream stream);
  Stream* find_stream(std::string_view name);
  const Stream* find_stream(std::string_view name) const;
  const std::list<Stream>& streams() const { return streams_; }
  Ring& add_ring(Ring ring);
  Ring* find_ring(std::string_view name);
  const Ring* find_ring(std::string_view name) const;
  const std::list<Ring>& rings() const { return rings_; }
  RemoteBuffer& add_remote_buffer(RemoteBuffer buffer);  // name made unique
  const RemoteBuffer* find_remote_buffer(std::string_view name) const;
  const std::list<RemoteBuffer>& remote_buffers() const { return remote_buffers_; }

  Attributes attributes;  // replication factor, strategy, ... as set by frontends

 private:
  friend class Graph;
  friend class Value;
  TypeTable types_;  // before the graphs, whose ops and values lie in these
  Pool<Op> op_memory_;
  Pool<Value> value_memory_;
  std::list<std::unique_ptr<Graph>> graphs_;
  std::unordered_map<std::string, Graph*> graph_by_name_;
  std::list<Variable> variables_;
  std::unordered_map<std::string, Variable*> variable_by_name_;
  std::list<Stream> streams_;
  std::unordered_map<std::string, Stream*> stream_by_name_;
  std::list<Ring> rings_;
  std::unordered_map<std::string, Ring*> ring_by_name_;
  std::list<RemoteBuffer> remote_buffers_;
  std::unordered_map<std::string, RemoteBuffer*> remote_buffer_by_name_;
};

}  // namespace ipu::ir
