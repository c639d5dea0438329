// The structural ops: the ones the IR itself knows, because they name graphs or tables or move control.
// All other kinds are defined in ops/. Operands → results and attributes:
//
//   call            (args...) → (callee outputs...)   {callee=@g, modified=[i...]}   modified: authored form
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
                                  kReplicaIndex = "replica_index";
}  // namespace kind

bool is_structural(const Op& op);
bool is_call(const Op& op);      // call or multi_exchange: one callee, taken with the operands as they stand
bool is_transfer(const Op& op);  // what a multi_exchange may hold: between host, streaming memory and tiles
// Writes or reads something other than its operands and results: never folded, merged, dropped or reordered
// against another op with effects on the same object. Structural kinds only; ops/ adds traits for the others.
bool has_side_effects(const Op& op);
// callee, body, then and else, stages; in that order. A code_load calls nothing.
std::vector<Graph*> called_graphs(const Op& op);

}  // namespace ipu::ir
