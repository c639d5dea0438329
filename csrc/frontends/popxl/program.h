// A program as PopXL and PopART users build and look at it: graphs of ops and tensors that can be edited at any
// time. One op is what one call of their API adds, with its published type, inputs by number (some absent), and
// tensors with scoped ids. Here is the structure and its edits alone: what an op type means is one row of
// op_kind.h, and to_module.h makes the IR of it, from nothing for each compilation, so that the structure stays
// editable and sessions are independent of later edits (docs/rationale/popxl-programs.md).
//
// Ownership: a Program owns its graphs, a Graph its ops and tensors. Pointers are stable until the thing is
// erased. Mistakes of users throw Error; bindings make popart_exception of it.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/popxl/data_type.h"
#include "ir/settings.h"
#include "support/attributes.h"
#include "support/replica_grouping.h"
#include "support/shape.h"

namespace ipu::popxl {

class Graph;
class Op;
class Program;
struct OpKind;  // op_kind.h

struct TensorInfo {
  DataType dtype = DataType::kUndefined;
  Shape shape;
  Shape meta_shape;  // of the whole, for a shard; else empty
  bool operator==(const TensorInfo&) const = default;
};
std::string to_string(const TensorInfo& info);  // "FLOAT16(2,3)"

enum class TensorType : uint8_t {
  kActGrad,
  kConst,
  kStream,
  kUnknown,
  kVariable
};  // order of the published enum

// What a Variable is besides its type; its host data belong to the front end in Python.
struct VariableSettings {
  ReplicaGrouping grouping;
  bool all_replicas = false;  // retrieval mode
  int64_t shard_over = 1;     // members of a group that share one copy
  int remote_buffer = -1;     // -1: on chip
  int64_t remote_entry = 0;
};

class Tensor {
 public:
  struct Use {
    Op* op;
    int input;
  };
  const std::string& id() const { return id_; }  // with the scope of its graph
  std::string_view name() const;                 // without
  int64_t number() const { return number_; }     // unique in the program, never reused
  Graph& graph() const { return *graph_; }
  Op* producer() const { return producer_; }  // nullptr: a variable, constant, stream, input, or disconnected
  int producer_output() const { return producer_output_; }
  const std::vector<Use>& uses() const { return uses_; }

  TensorInfo info;
  TensorType type = TensorType::kActGrad;
  ConstantPtr constant;       // of a Const, in the type of the device
  VariableSettings variable;  // of a Variable

 private:
  friend class Graph;
  friend class Op;
  friend class Program;
  std::string id_;
  int64_t number_ = 0;
  Graph* graph_ = nullptr;
  Op* producer_ = nullptr;
  int producer_output_ = 0;
  std::vector<Use> uses_;
  std::list<std::unique_ptr<Tensor>>::iterator own_;  // where its graph keeps it
};

// Published enum, in its order.
enum class ExecutionContext : uint8_t {
  kNormal,
  kAccumulateOuter,
  kWeightsFromHost,
  kWeightsToHost,
  kOptimizerFromHost,
  kSubgraph,
};
enum class TileSet : uint8_t { kCompute, kIo };

struct OpSettings {
  std::string name;
  std::optional<int64_t> ipu, pipeline_stage, execution_phase, batch_serialized_phase;
  ExecutionContext context = ExecutionContext::kNormal;
  TileSet tile_set = TileSet::kCompute;
  ir::Location location;
};

struct OperatorIdentifier {
  std::string domain, type;
  int version = 1;
};

// A load or store that is part of a MultiExchange; its inputs and outputs are inputs and outputs of that op.
struct Transfer {
  const OpKind* kind;
  Attributes attributes;
  std::map<int, int> inputs, outputs;  // own index → index of the exchange
};

// Where an input of a gradient op comes from, by number of the forward op.
struct GradientInput {
  enum class From : uint8_t { kGradOut, kIn, kOut } from;
  int forward_index;
};
// What a gradient op knows of its forward op, which may be gone.
struct ForwardOp {
  const OpKind* kind = nullptr;
  Attributes attributes;
  std::map<int, TensorInfo> inputs, outputs;
  std::map<int, GradientInput> consumed;  // by input of the gradient op
  std::vector<int> differentiated;  // forward inputs; output k of the gradient op is the gradient of the k-th
  std::map<int, int64_t>
      integers;  // by forward input: of inputs that are a constant of one integer, its value
};

struct ById {
  bool operator()(const Op* a, const Op* b) const;
};
using OpSet = std::set<Op*, ById>;

// The graphs that an op runs. Each graph knows the ops that run it, by Graph::sites().
class CalledGraphs {
 public:
  explicit CalledGraphs(Op* owner) : owner_(owner) {}
  ~CalledGraphs() { set({}); }
  CalledGraphs(const CalledGraphs&) = delete;
  CalledGraphs& operator=(const CalledGraphs& other) {
    if (this != &other) set(other.graphs_);
    return *this;
  }
  CalledGraphs& operator=(std::vector<Graph*> graphs) {
    set(std::move(graphs));
    return *this;
  }
  bool empty() const { return graphs_.empty(); }
  size_t size() const { return graphs_.size(); }
  Graph* at(size_t i) const;  // Error(kInvalidIr) naming the op where it has fewer
  Graph* operator[](size_t i) const { return graphs_[i]; }
  auto begin() const { return graphs_.begin(); }
  auto end() const { return graphs_.end(); }
  bool contains(const Graph& graph) const;

 private:
  void set(std::vector<Graph*> graphs);
  Op* owner_;
  std::vector<Graph*> graphs_;
};

class Op {
 public:
  int64_t id() const { return id_; }  // the first of a program is 100
  const OpKind& kind() const { return *kind_; }
  Graph& graph() const { return *graph_; }
  const std::map<int, Tensor*>& inputs() const { return inputs_; }
  const std::map<int, Tensor*>& outputs() const { return outputs_; }
  Tensor* input(int i) const;   // nullptr: absent
  Tensor* output(int i) const;  // nullptr: absent

  void connect_input(int i, Tensor& tensor);  // of the same graph; replaces what was there
  void disconnect_input(int i);
  void connect_output(int i, Tensor& tensor);  // a tensor without producer
  Tensor& create_output(int i, std::string_view id);
  void disconnect_output(int i);  // the tensor stays in the graph
  // Infers types of the outputs from those of the inputs (op_kind.h). Error(kTypeMismatch) naming op and inputs.
  void setup();

  OperatorIdentifier identifier;
  Attributes attributes;
  OpSettings settings;
  std::unique_ptr<const ForwardOp> forward;  // of a gradient op

  // The graphs that Call, Loop, If and their gradients run, and the input or output of which graph an index of the op
  // stands for (If: by branch; -1: none).
  CalledGraphs callees{this};
  std::vector<std::map<int, int>> callee_inputs, callee_outputs;  // If: index of the graph → index of the op
  // Inputs that hold what the callee left in its own input.
  std::set<int> modified;
  // The transfers that a MultiExchange merges.
  std::vector<Transfer> transfers;

 private:
  friend class Graph;
  friend class Program;
  int64_t id_ = 0;
  const OpKind* kind_ = nullptr;
  Graph* graph_ = nullptr;
  std::map<int, Tensor*> inputs_, outputs_;
  OpSet before_, after_, tied_;                   // ordering edges: those that run before this one; after it
  std::list<std::unique_ptr<Op>>::iterator own_;  // where its graph keeps it
};

inline bool ById::operator()(const Op* a, const Op* b) const { return a->id() < b->id(); }

class Graph {
 public:
  const std::string& id() const { return id_; }  // "" for main
  int number() const { return number_; }
  Program& program() const { return *program_; }
  bool is_main() const { return id_.empty(); }

  // `name` with the scope of this graph.
  std::string scoped(std::string_view name) const;
  // A full id that no tensor of this graph has: scoped(name), with __t<k> where that is taken.
  std::string unique_id(std::string_view name);
  Tensor& create_tensor(std::string_view id, TensorInfo info, TensorType type);  // Error when the id is taken
  Tensor* find_tensor(std::string_view id) const;
  Tensor& tensor(std::string_view id) const;  // Error(kInvalidIr) naming graph and id
  const std::map<std::string, Tensor*, std::less<>>& tensors() const { return tensors_; }  // by id
  void erase_tensor(Tensor& tensor);  // Error when something reads or makes it

  Op& create_op(const OpKind& kind, OperatorIdentifier identifier, Attributes attributes,
                OpSettings settings);
  // An op like `op`, of any graph, without its inputs, outputs and edges.
  Op& clone_op(const Op& op);
  void erase_op(Op& op);  // with its edges; inputs and outputs are disconnected, the tensors stay
  const std::map<int64_t, Op*>& ops() const { return ops_; }  // by id
  Op& op(int64_t id) const;                                   // Error(kInvalidIr)

  std::vector<Tensor*> inputs, outputs;
  std::set<const Tensor*> by_reference;  // inputs
  bool may_be_differentiated = true;     // as a callee

  // `before` runs before `after`; tied: with nothing between.
  void add_edge(Op& before, Op& after, bool tied = false);
  void remove_edge(Op& before, Op& after);
  const OpSet& before(const Op& op) const { return op.before_; }
  const OpSet& after(const Op& op) const { return op.after_; }
  const OpSet& tied(const Op& op) const { return op.tied_; }
  // Ops in an order that operands and edges allow, the one with fewest live bytes where nothing decides.
  // Error(kInvalidIr) naming the ops of a cycle.
  std::vector<Op*> schedule() const;

  std::vector<Graph*> callees() const;           // each once, by first op
  const OpSet& sites() const { return sites_; }  // ops of any graph that run this one

 private:
  friend class Program;
  friend class CalledGraphs;
  std::string id_;
  int number_ = 0;
  Program* program_ = nullptr;
  std::map<std::string, Tensor*, std::less<>> tensors_;
  std::map<int64_t, Op*> ops_;
  OpSet sites_;
  std::list<std::unique_ptr<Tensor>> owned_tensors_;
  std::list<std::unique_ptr<Op>> owned_ops_;
};

std::string described(const Graph& graph);  // "the main graph", "graph 'g'"

struct RemoteBufferInfo {
  TensorInfo info;
  int64_t entries = 1;
};

class InferenceScratch;  // infer_scratch.h

class Program {
 public:
  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int64_t id() const { return id_; }  // unique in the process
  Graph& main() const { return *main_; }
  Graph& create_graph(std::string_view id);  // Error when taken
  Graph* find_graph(std::string_view id) const;
  Graph& graph(std::string_view id) const;  // Error(kInvalidIr)
  Graph& graph_of_number(int number) const;
  void erase_graph(Graph& graph);
  const std::map<std::string, std::unique_ptr<Graph>, std::less<>>& graphs() const { return graphs_; }
  Tensor& tensor_of_number(int64_t number) const;  // Error(kInvalidIr) when it was erased
  Op& op_of_id(int64_t id) const;                  // Error(kInvalidIr)

  std::string unique_subgraph_id(std::string_view base);  // "<base>_subgraph(<n>)", n counts up
  std::string intermediate_id(std::string_view base);     // "<base>__t<k>", k counts up

  std::map<int, RemoteBufferInfo> remote_buffers;
  int64_t replicas = 1;   // of the whole job
  int64_t processes = 1;  // that share them
  int64_t io_tiles = 0;   // of each IPU
  // A log2_scale outside [-32, 32): an error of the run, or taken as the nearest in it.
  bool checks_scales = true;

  InferenceScratch& scratch();

 private:
  friend class Graph;
  friend class Op;
  int64_t id_;
  int64_t next_op_ = 100, next_tensor_ = 0, next_suffix_ = 0, next_subgraph_ = 0;
  int next_graph_ = 0;
  std::map<std::string, std::unique_ptr<Graph>, std::less<>> graphs_;
  std::unordered_map<int, Graph*> graph_by_number_;
  std::unordered_map<int64_t, Tensor*> tensor_by_number_;
  std::unordered_map<int64_t, Op*> op_by_id_;
  Graph* main_;
  std::unique_ptr<InferenceScratch> scratch_;
};

}  // namespace ipu::popxl
