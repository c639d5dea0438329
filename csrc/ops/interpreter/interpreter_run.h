// One execution of a module's graphs over the state of an interpreter; private to it. A value is one tensor
// for each replica; a branch or loop that replicas leave at different times goes on with those still in it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/interpreter/frame.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::ops {

void settle(ReferenceTensor& tensor, Arithmetic arithmetic);

class InterpreterRun {
 public:
  explicit InterpreterRun(Interpreter& state);

  // `final_inputs`, when given, receives what the inputs hold at the end (by-reference call sites of the
  // authored form).
  std::vector<ReplicaValues> graph(const ir::Graph& graph, std::vector<ReplicaValues> inputs,
                                   const ReplicaList& active,
                                   std::vector<ReplicaValues>* final_inputs = nullptr);

 private:
  void run(const ir::Op& op, Frame& frame, const ReplicaList& active);
  std::vector<ReplicaValues> defined(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                     const ReplicaList& active);
  // An authored kind: the ordinary ops it stands for.
  std::vector<ReplicaValues> expanded(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                      const ReplicaList& active);
  std::vector<ReplicaValues> collective(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                        const ReplicaList& active);
  std::vector<ReplicaValues> structural(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                        Frame& frame, const ReplicaList& active);
  // Structural ops that see one replica only; the result, nullptr when there is none.
  TensorPtr transfer(const ir::Op& op, const std::vector<TensorPtr>& operands, int64_t replica);

  std::vector<ReplicaValues> call(const ir::Op& op, const std::vector<ReplicaValues>& operands, Frame& frame,
                                  const ReplicaList& active);
  std::vector<ReplicaValues> loop(const ir::Op& op, std::vector<ReplicaValues> operands, Frame& frame,
                                  const ReplicaList& active);
  std::vector<ReplicaValues> branch(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                    Frame& frame, const ReplicaList& active);
  std::vector<ReplicaValues> pipeline(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                      const ReplicaList& active);

  const ir::Graph& named(const ir::Op& op, const Symbol& symbol) const;
  TensorPtr take(const ir::Op& op, std::deque<ReferenceTensor>& queue, bool keep, const char* what,
                 const std::string& name);
  void push(const ir::Op& op, const ReferenceTensor& value, int64_t replica);
  ReferenceTensor& remote_entry(const ir::Op& op, const TensorPtr& offset, int64_t replica, bool is_read);
  TensorPtr read_variable(const ir::Op& op, int64_t replica);
  TensorPtr rng_context(const ir::Op& op, int64_t replica) const;

  Interpreter& state_;
  const ir::Module& module_;
  std::map<std::pair<std::string, int64_t>, const ir::Variable*> remote_variables_;  // by buffer and entry
  std::vector<int64_t> counters_;  // of the loops being run, outermost first
  std::unordered_map<const ir::Op*, std::unique_ptr<ir::Module>> expansions_;  // one graph each
};

}  // namespace ipu::ops
