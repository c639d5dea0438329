// The rules of a legal module, one function per kind of op or table; verifier.h is the way in. Linear in the
// module; graphs that call each other are walked without recursion, so a deep chain of calls is no danger.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/regions.h"
#include "ir/verify/verifier.h"

namespace ipu::ir {

inline std::string at(const std::string& name) { return "@" + name; }

class Verifier {
 public:
  Verifier(const Module& module, Form form) : module_(module), form_(form) {}
  std::vector<Violation> run();

  // The rules of the structural kinds, named in their rows (structure.cc).
  // verify_calls.cc: call sites against what they call
  void call(const Op& op);
  void code_load(const Op& op);
  void loop(const Op& op);
  void branch(const Op& op);
  // Every stage takes (index, carried, invariant, flows of all earlier stages) and returns (carried, its
  // flows).
  void pipeline(const Op& op);
  // verify_transfers.cc: ops that touch tables, move or write
  void variable_access(const Op& op);
  void host_access(const Op& op);
  void ring_access(const Op& op);
  void ipu_copy(const Op& op);
  void io_barrier(const Op& op);
  void remote_access(const Op& op);
  void constant(const Op& op);
  void seed(const Op& op);
  void replica_number(const Op& op);
  // write(target, source) {starts, sizes, steps}: the region of target, all of it without attributes, takes
  // source.
  void write(const Op& op);

 private:
  // verifier.cc
  void report(std::string what);
  void check(const Graph& graph);
  void check_op(const Op& op);
  // Depth first with a stack of its own. An edge back to a graph still on the stack closes a cycle.
  void recursion();
  std::vector<const Graph*> callees(const Graph& graph);

  // verify_tables.cc
  void tables();
  void variable(const Variable& v);
  // Groups and shards, where the module says how many replicas there are.
  void replicas(const Variable& v, const std::string& name);
  void entry_points();

  // verify_calls.cc
  void modified(const Op& op);
  void loop_body(const Region& region, const Graph& body);
  void index_input(const Graph& body);
  void carried_types(const Region& region, const Graph& body);
  void carried_results(const Region& region);
  // Operands that are handed on against the inputs of `body`; `extra` inputs more come from elsewhere.
  void arguments(const Region& region, const Graph& body, int extra = 0);
  void results(const Region& region, const Graph& body);

  // verify_transfers.cc: one result of the table's type, or one operand of it.
  void transfer(const Op& op, bool reads, const Type& type, const std::string& table);

  // verify_attributes.cc: what the others ask; a false, -1 or nullptr has been reported
  bool counts(const Op& op, int operands, int results);
  void same(const Op& op, const Type& from, const Type& to);
  bool flag(const Op& op, std::string_view name);
  bool integer(const Op& op, std::string_view name, int64_t least);
  int64_t carried_count(const Op& op);
  const std::string* symbol(const Op& op, std::string_view name);
  const Graph* graph_of(const Op& op, std::string_view name);

  const Module& module_;
  Form form_;
  int64_t replicas_ = 1;
  std::vector<Violation> found_;
  std::unordered_set<const Graph*> entry_graphs_;
  const Graph* graph_ = nullptr;
  const Op* op_ = nullptr;
  const Op* described_ = nullptr;  // whose text is in description_
  std::string description_;
  bool is_listed(const Op& op) const {
    return static_cast<size_t>(op.id()) < listed_.size() && listed_[static_cast<size_t>(op.id())];
  }
  std::vector<bool> listed_;  // by id of an op: it was met on the way through this graph
};

}  // namespace ipu::ir
