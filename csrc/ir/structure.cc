#include "ir/structure.h"

#include <algorithm>

#include "ir/verify/verifier_rules.h"

namespace ipu::ir {
namespace {

constexpr StructuralKind kRows[] = {
    {.name = kind::kCall, .check = &Verifier::call, .bodies = {"callee"}, .is_call = true},
    {.name = kind::kMultiExchange,
     .check = &Verifier::call,
     .bodies = {"callee"},
     .is_call = true,
     .is_transfer = true},
    {.name = kind::kCodeLoad, .check = &Verifier::code_load, .is_transfer = true, .has_side_effects = true},
    {.name = kind::kLoop, .check = &Verifier::loop, .bodies = {"body"}, .repeats = true, .may_stop = true},
    {.name = kind::kIf, .check = &Verifier::branch, .bodies = {"then", "else"}, .has_condition = true},
    {.name = kind::kPipeline,
     .check = &Verifier::pipeline,
     .bodies = {"stages"},
     .has_body_list = true,
     .repeats = true},
    {.name = kind::kVariableRead,
     .check = &Verifier::variable_access,
     .reads_state = true,
     .is_entry_only = true},
    {.name = kind::kVariableAssign,
     .check = &Verifier::variable_access,
     .has_side_effects = true,
     .is_entry_only = true},
    {.name = kind::kHostLoad, .check = &Verifier::host_access, .is_transfer = true, .has_side_effects = true},
    {.name = kind::kHostStore,
     .check = &Verifier::host_access,
     .is_transfer = true,
     .has_side_effects = true},
    {.name = kind::kRingPush, .check = &Verifier::ring_access, .has_side_effects = true},
    {.name = kind::kRingPop, .check = &Verifier::ring_access, .has_side_effects = true},
    {.name = kind::kIpuCopy, .check = &Verifier::ipu_copy},
    {.name = kind::kIoBarrier, .check = &Verifier::io_barrier, .has_side_effects = true},
    {.name = kind::kRemoteLoad, .check = &Verifier::remote_access, .is_transfer = true, .reads_state = true},
    {.name = kind::kRemoteStore,
     .check = &Verifier::remote_access,
     .is_transfer = true,
     .has_side_effects = true},
    {.name = kind::kConstant, .check = &Verifier::constant},
    {.name = kind::kRngContext, .check = &Verifier::seed, .reads_state = true},
    {.name = kind::kReplicaIndex, .check = &Verifier::replica_number},
    {.name = kind::kWrite, .check = &Verifier::write, .is_authored_only = true},
};

}  // namespace

const StructuralKind* structural_kind(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const StructuralKind& candidate) { return candidate.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

bool is_overlapped(const Op& op) {
  return (op.is(kind::kHostLoad) || op.is(kind::kHostStore)) && op.settings.tile_set == TileSet::kIo &&
         op.settings.exchange != ExchangeStrategy::kJustInTime;
}

std::vector<Graph*> called_graphs(const Op& op) {
  std::vector<Graph*> graphs;
  if (!is_region(op)) return graphs;
  const StructuralKind& row = *op.structure();
  auto add = [&](const Symbol& symbol) {
    if (Graph* graph = op.graph()->module()->find_graph(symbol.name)) graphs.push_back(graph);
  };
  for (std::string_view name : row.bodies) {
    const Attribute* value = name.empty() ? nullptr : op.attributes.find(name);
    if (value == nullptr) continue;
    if (row.has_body_list) {
      if (const auto* symbols = std::get_if<std::vector<Symbol>>(value))
        for (const Symbol& symbol : *symbols) add(symbol);
    } else if (const auto* symbol = std::get_if<Symbol>(value)) {
      add(*symbol);
    }
  }
  return graphs;
}

}  // namespace ipu::ir
