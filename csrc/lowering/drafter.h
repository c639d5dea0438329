// Projection of a nest of graphs onto one IPU, or I/O tiles that work beside it (processors.h): the steps this IPU runs, over virtual buffers, in program
// order. Values go to other IPUs as soon as they exist and are taken over when first needed.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "lowering/demand.h"
#include "lowering/draft.h"
#include "lowering/subroutine.h"

namespace ipu::lowering {

// What all IPUs of a program share; the drafters add to it.
struct SharedTables {
  program::Program* program = nullptr;
  std::unordered_map<std::string, int> streams, variables, rings, remote_buffers;
  std::map<std::pair<const Scope*, const ir::Op*>, int> copy_rings;
  std::map<std::tuple<const Scope*, const ir::Op*, int, int>, int> barrier_rings;
  int token_number = -1;
  int64_t prefetch_depth = 1;  // elements in rings from I/O tiles to their IPU
  // By site and what is asked there: the rings to each IPU that a condition is sent to.
  std::map<std::tuple<const Scope*, const ir::Op*, int>, int> condition_rings;
  std::unordered_map<const ConstantData*, int> constants;
  std::unordered_map<const ir::Op*, int> origins;

  std::map<int64_t, int> entry_numbers;
  std::vector<char> placed_streams;         // by stream: an IPU moves it
  std::vector<char> placed_remote_buffers;  // by remote buffer: an IPU or a variable says where it is

  int constant(const ConstantPtr& data);
  // The stream that `op` moves on `ipu`. Error when another IPU moves it too: a stream has one cursor.
  int stream(const ir::Op& op, int ipu);
  int origin(const ir::Op& op);
  int copy_ring(const Scope& scope, const ir::Op& copy, Processors::Crossing crosses);
  // Between I/O tiles and their IPU, which meet at an io_barrier.
  int barrier_ring(const Scope& scope, const ir::Op& barrier, int from, int to);
  // From the IPU that makes the condition of `site`, which is asked in `scope`.
  int condition_ring(const Scope& scope, const ir::Op& site, int from, int to);
  // Says that `op` touches a remote buffer on `ipu`. Error when another IPU touches it too: they would run side
  // by side.
  void place_remote_buffer(int number, int ipu, const ir::Op& op);
  int token();                      // the constant (bool[]) that goes through them
  int entry_number(int64_t entry);  // the constant (u32[]) that says it
};

class Drafter {
 public:
  Drafter(const Nest& nest, const Demand& demand, SharedTables& shared, int ipu)
      : nest_(nest), demand_(demand), shared_(shared), ipu_(ipu), places_(nest.value_count()) {}

  Draft run();                                         // an entry point
  Draft run_subroutine(const Subroutine& subroutine);  // that the nest is of

 private:
  bool needed(const Scope& scope, const ir::Value* value) const { return demand_.needs(ipu_, scope, value); }
  View& place_of(const Scope& scope, const ir::Value* value) { return places_[scope.value(value)]; }

  // Control (drafter_control.cc).
  void emit_scope(const Scope& scope);
  void emit_call(const Scope& scope, const ir::Op& op);
  void emit_subroutine_call(const Scope& scope, const ir::Op& op, const Subroutine& called);
  void emit_loop(const Scope& scope, const ir::Op& op);
  void emit_if(const Scope& scope, const ir::Op& op);
  void hand_over(const Scope& scope, const ir::Op& op, const Scope& called);
  DraftOperand condition_of(const Scope& scope, const ir::Op& site, const ir::Value* value,
                            const std::vector<Scope*>& bodies);
  int emit_condition(const Scope& body, const std::vector<int>& carried_buffers);
  void settle_carried(const Scope& body, const std::vector<int>& carried_buffers);

  // Ops (drafter.cc).
  void emit_op(const Scope& scope, const ir::Op& op);
  void emit_kernel(const Scope& scope, const ir::Op& op);
  void emit_collective(const Scope& scope, const ir::Op& op);
  void emit_remote(const Scope& scope, const ir::Op& op);
  void emit_barrier(const Scope& scope, const ir::Op& op);
  void send_early(const Scope& scope, const ir::Value* value);
  void send(const Scope& scope, const ir::Op& copy);
  void take(const Scope& scope, const ir::Op& op);
  void take_pending(const Scope& scope, const std::string* ring);
  // Where a value of the scope being emitted lies; constants, indices and arrivals come into being at first
  // use.
  View constant_place(const ir::Value* value);
  const View& ensure(const Scope& scope, const ir::Value* value);
  const View& contiguous(const Scope& scope, const ir::Value* value);
  View materialise(const View& from, const std::string& name);
  void move(const View& from, int to, int origin);

  View new_buffer(const TensorSpec& spec, const std::string& name,
                  program::Storage storage = program::Storage::kArena, int index = -1);
  int variable_buffer(const std::string& name);
  DraftStep& add(program::Opcode opcode, int origin = -1);

  const Nest& nest_;
  const Demand& demand_;
  SharedTables& shared_;
  const int ipu_;
  Draft draft_;
  std::vector<View> places_;                                    // by value number
  std::map<const Scope*, std::vector<const ir::Op*>> pending_;  // arrivals nobody has needed yet, in order
  std::map<const ir::Op*, std::vector<const Scope*>> sent_;     // copies that were sent early
  std::unordered_map<const ConstantData*, int> constant_buffers_;
  std::unordered_map<const ConstantData*, ConstantPtr> splats_;  // of constants that are one value
  std::unordered_map<std::string, int> variable_buffers_;
  std::map<const Scope*, int> counters_;
  int depth_ = 0;
};

}  // namespace ipu::lowering
