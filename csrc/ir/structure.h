// The structural ops: the ones the IR itself knows, because they name graphs or tables or move control.
// All other kinds are defined in ops/. Operands → results and attributes:
//
//   call            (args...) → (callee outputs...)   {callee=@g, modified=[i...]}   modified: authored form
//                     authored form: a site may have fewer results, those of the first outputs
//   multi_exchange  (args...) → (callee outputs...)   {callee=@g, modified=[i...]}
//                     a call whose callee holds nothing but transfers (is_transfer); they happen in one
//                     exchange, in no order
//   code_load       () → ()                           {graph=@g, destination="executable"}
//                     the code of @g comes from streaming memory; no value depends on it
//   loop            (carried..., invariant...) → (carried...)   {body=@g, trip=N, carried=K}
//                     body: (i32[] index, carried..., invariant...) → (carried...)
//                     with {while}: body returns a leading bool[] "go on"; trip is then the maximum
//   if              (bool[] condition, args...) → (...)   {then=@g, else=@h}
//                     both take args... and return the same types
//   pipeline        (carried..., invariant...) → (carried...)
//                     {stages=[@s...], schedule="grouped", micro_batches=N, carried=K}
//                     stage graph: (i32[] micro-batch, carried..., invariant...,
//                     flows of all earlier stages...) → (carried..., flows of this stage...)
//                     For each micro-batch the stages run in order, like the body of a loop. As frontends
//                     build it there is one stage graph, the whole body, whose ops name their stage in
//                     settings.stage; passes treat it as a loop but never merge ops of different stages.
//                     `pipeline-to-rings` splits it and rewrites it to a loop and rings (docs/ir.md).
//   variable.read   () → (v)               {variable=@w}   entry graphs only
//   variable.assign (v) → ()               {variable=@w}   entry graphs only
//   host_load       () → (x)               {stream=@s}     next element of the stream
//   host_store      (x) → ()               {stream=@s}
//   ring.push       (x) → ()               {ring=@r}
//   ring.pop        () → (x)               {ring=@r}
//   ipu_copy        (x) → (x')             {from=i, to=j}  settings.ipu is the destination
//   io_barrier      () → ()                           I/O tiles that overlap the inner loop and the rest of their IPU
//                     meet: transfers behind it begin after it, those before it are done when the IPU goes on
//   remote.load     (offset?) → (x)        {buffer=@b, entry=i}
//   remote.store    (x, offset?) → ()      {buffer=@b, entry=i}
//   constant        () → (c)               {value=dense}
//   rng.context     () → (u32[2])          {path}
//   replica_index   () → (i32[])           the number of the replica that runs this, from 0
//   write           (target, source) → ()  {starts, sizes, steps}
//                     authored form: the region of target's memory (all of it without attributes) takes source
//
// Collectives and io_tile_copy are ordinary definitions in ops/.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

namespace kind {
inline constexpr std::string_view kCall = "call", kLoop = "loop", kIf = "if", kPipeline = "pipeline",
                                  kVariableRead = "variable.read", kVariableAssign = "variable.assign",
                                  kHostLoad = "host_load", kHostStore = "host_store", kRingPush = "ring.push",
                                  kRingPop = "ring.pop", kIpuCopy = "ipu_copy", kRemoteLoad = "remote.load",
                                  kRemoteStore = "remote.store", kConstant = "constant",
                                  kRngContext = "rng.context", kWrite = "write",
                                  kMultiExchange = "multi_exchange", kCodeLoad = "code_load",
                                  kReplicaIndex = "replica_index", kIoBarrier = "io_barrier";
}  // namespace kind

class Verifier;

// What the IR knows of a kind: one row of the table in structure.cc. How operands and results of a region meet
// the inputs and outputs of its bodies is read by regions.h.
struct StructuralKind {
  std::string_view name;
  void (Verifier::*check)(const Op&) = nullptr;  // its rule of a legal module

  // Graphs it runs, in the order of their meaning: attributes that hold one symbol each, or a list of symbols.
  std::array<std::string_view, 2> bodies{};
  bool has_body_list = false;
  bool has_condition = false;  // operand 0 chooses the body and is not handed on
  bool repeats = false;        // input 0 of a body is the index; the first operands are carried
  bool may_stop = false;       // {while}: output 0 of the body says whether to go on
  bool is_call = false;        // one callee, taken with the operands as they stand

  bool is_transfer = false;       // what a multi_exchange may hold: between host, streaming memory and tiles
  bool has_side_effects = false;  // itself; graphs it runs have their own (ir/effects.h)
  bool reads_state = false;       // its results depend on more than its operands
  bool is_entry_only = false;     // stands in entry graphs only
  bool is_authored_only = false;  // not in the functional form
};

const StructuralKind* structural_kind(
    std::string_view name);  // nullptr: none; Op::structure() knows it at once

inline bool is_structural(const Op& op) { return op.structure() != nullptr; }
// Runs graphs: call, multi_exchange, loop, if, pipeline (regions.h).
inline bool is_region(const Op& op) { return is_structural(op) && !op.structure()->bodies[0].empty(); }
inline bool is_call(const Op& op) { return is_structural(op) && op.structure()->is_call; }
inline bool is_transfer(const Op& op) { return is_structural(op) && op.structure()->is_transfer; }
// variable.read, variable.assign
inline bool touches_variable(const Op& op) { return is_structural(op) && op.structure()->is_entry_only; }
// A host_load or host_store that I/O tiles do while the rest of their IPU computes.
bool is_overlapped(const Op& op);
// callee, body, then and else, stages; in that order. A code_load calls nothing.
std::vector<Graph*> called_graphs(const Op& op);

}  // namespace ipu::ir
