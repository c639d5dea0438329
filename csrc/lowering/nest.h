// The nest of graphs of an entry point: every graph at every place it is used, its values numbered, and the
// IPU each value lives on. The same graph used twice is two scopes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "lowering/processors.h"

namespace ipu::lowering {

inline constexpr int kAnywhere =
    -1;  // loop indices and what is replicable (ops/replicable.h): computed where needed

struct Scope {
  const ir::Graph* graph = nullptr;
  const ir::Op* site = nullptr;  // in parent->graph; nullptr: the entry graph
  Scope* parent = nullptr;
  int number = 0;                  // in Nest::scopes
  int first_input = 0;             // number of input 0 among the nest's values; the others follow
  std::vector<int> first_results;  // by id of an op: number of its result 0
  std::unordered_map<const ir::Op*, std::vector<Scope*>> called;  // callee; body; then and else

  bool is_loop_body() const;
  int value(const ir::Value* v) const {
    const ir::Op* op = v->producer();
    return v->index() + (op == nullptr ? first_input : first_results[static_cast<size_t>(op->id())]);
  }
};

// Interval of a loop's index in which the condition of an `if` holds.
struct StaticCondition {
  const Scope* loop = nullptr;  // body of the loop; nullptr: holds always (low = 1) or never (low = 0)
  int64_t low = 0, high = 0;
};

class Subroutine;
struct Subroutines;  // subroutine.h

class Nest {
 public:
  // Calls of `subroutines` (nullptr: there are none) are leaves. Inputs of the entry are those of a subroutine, and
  // live where they say.
  // Throws Error when values cross IPUs without an ipu_copy, and for structural ops that cannot be lowered.
  // Without `processors` no I/O tiles work beside their IPU.
  Nest(const ir::Module& module, const ir::Graph& entry, const Subroutines* subroutines = nullptr,
       const Processors* processors = nullptr);

  const Subroutine* subroutine(const ir::Op& op) const;  // that it calls; nullptr: none
  int output_home(int output) const;                     // of the entry

  const ir::Module& module() const { return module_; }
  Scope& root() const { return *scopes_.front(); }
  const std::vector<std::unique_ptr<Scope>>& scopes() const { return scopes_; }
  int value_count() const { return static_cast<int>(homes_.size()); }
  int home(int value) const { return homes_[value]; }
  int home(const Scope& scope, const ir::Value* value) const { return homes_[scope.value(value)]; }
  // IPU of an op that is no loop, if or call; kAnywhere for ops that are computed where needed.
  int home_of(const Scope& scope, const ir::Op& op) const;
  int ipu_count() const { return ipu_count_; }  // with I/O tiles that work beside them (Processors)
  Processors::Crossing crossing(const ir::Op& op) const;
  const Processors* processors() const { return processors_; }

  // The condition of `site` (an `if` in `scope`), when it follows from the index of one loop around it.
  std::optional<StaticCondition> static_condition(const Scope& scope, const ir::Op& site) const;

 private:
  Scope* add_scope(const ir::Graph& graph, const ir::Op* site, Scope* parent);
  bool find_homes(Scope& scope);
  bool set_home(int value, int home);
  // Where the passes have put what could be computed anywhere: a value of the entry.
  int place_of(const ir::Value* value) const;
  const ir::Graph& graph_named(const ir::Op& op, const Symbol& symbol) const;

  const ir::Module& module_;
  const Subroutines* subroutines_;
  const Processors* processors_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<int> homes_;
  int ipu_count_ = 1;
};

}  // namespace ipu::lowering
