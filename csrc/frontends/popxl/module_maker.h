// Making the IR of a program: what to_module.cc (graphs, variables, entry points) and module_regions.cc (calls, transfers)
// share.
//
// A graph of the program becomes one graph of the IR for each role it has: called, or the body of a loop (whose
// condition the IR does not have). The main graph becomes an entry point for each execution context. What one
// context leaves and another reads, such as the shard that is loaded with the weights, lives in a variable of
// each replica.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/popxl/program.h"
#include "ir/builder.h"

namespace ipu::popxl {

// The number, if an IPU can have it. Error(kInvalidIr).
int64_t checked_ipu(int64_t number);

class ModuleMaker {
 public:
  explicit ModuleMaker(const Program& program);
  std::unique_ptr<ir::Module> make();

 private:
  enum class Role : uint8_t { kCalled, kLoopBody };
  using OpList = std::vector<Op*>;

  // One graph of the IR that is being filled.
  struct Scope {
    const Graph& graph;
    ir::Graph* target;
    ir::Builder builder;
    ExecutionContext context = ExecutionContext::kNormal;  // of an entry point
    std::unordered_map<const Tensor*, ir::Value*> values = {};
    std::unordered_map<const Op*, std::vector<ir::Op*>> made = {};  // ops of the IR, without constants
    // Entry points: variables of the IR that were read, and what writes their memory.
    std::map<const Tensor*, ir::Variable*> read = {};
    std::map<const Tensor*, std::vector<const Op*>> written = {};
    std::unordered_map<const Tensor*, std::vector<const Tensor*>> memory = {};  // variables a tensor lies in
  };

  void check_calls(const Graph& graph, std::vector<const Graph*>& path);
  static bool is_entry_context(ExecutionContext context);
  static ExecutionContext entry_of(const Op& op);

  ir::Graph* graph_for(const Graph& graph, Role role);
  void make_entry(ExecutionContext context, const char* name, const OpList& ops);
  void fill(Scope& scope, const OpList& ops);
  void add_op(Scope& scope, const Op& op);
  void place(Scope& scope, const Op& op) const;
  ir::Value* value_of(Scope& scope, const Tensor& tensor);
  ir::Value* input_of(Scope& scope, const Op& op, int i);
  void note_memory(Scope& scope, const Op& op);
  ir::Variable& variable_of(const Tensor& tensor);
  void lay_in_entry(ir::Variable& variable, const VariableSettings& settings);
  const std::string& remote_buffer_of(int id);
  const std::string& stream_of(const Tensor& tensor, ir::StreamDirection direction);
  void assign_variables(Scope& scope);
  ir::Type device_type(const TensorInfo& info, const std::string& what) const;

  // module_regions.cc; true: `op` is one of these and was added.
  bool add_structural(Scope& scope, const Op& op);
  void add_call(Scope& scope, const Op& op);
  void add_loop(Scope& scope, const Op& op);
  void add_branch(Scope& scope, const Op& op);
  ir::Graph* branch_graph(const Op& op, size_t branch, const std::vector<ir::Type>& arguments, int outputs);
  void add_exchange(Scope& scope, const Op& op);
  // Result values by own output index.
  std::map<int, ir::Value*> add_transfer(ir::Builder& builder, const OpKind& kind,
                                         const Attributes& attributes,
                                         const std::map<int, ir::Value*>& inputs);

  const Program& program_;
  std::unique_ptr<ir::Module> module_;
  std::map<std::pair<const Graph*, Role>, ir::Graph*> graphs_;
  std::map<const Tensor*, ir::Variable*> variables_;
  std::map<int, std::string> remote_buffers_;
  std::map<const Tensor*, std::string> streams_;
  std::map<const OpKind*, ir::OriginPtr> origins_;
};

}  // namespace ipu::popxl
