// The way from functional IR to a program: number the nest, find what each IPU needs, project, join buffers,
// plan memory, check.
#include "lowering/lower.h"

#include <fmt/core.h>

#include "ir/structure.h"
#include "lowering/drafter.h"
#include "support/error.h"

namespace ipu::lowering {
namespace {

namespace kind = ir::kind;

program::StreamMode mode_of(const ir::Stream& stream) {
  if (stream.direction == ir::StreamDirection::kHostToDevice)
    return stream.constant ? program::StreamMode::kConstantInput : program::StreamMode::kInput;
  return static_cast<program::StreamMode>(stream.mode);
}

// Tables in the order of the module's, so that indices mean the same in both.
void fill_tables(const Nest& nest, program::Program& out, SharedTables& shared) {
  const ir::Module& module = nest.module();
  for (const ir::Stream& stream : module.streams()) {
    shared.streams.emplace(stream.name, static_cast<int>(out.streams.size()));
    out.streams.push_back({stream.name, mode_of(stream), spec_of(stream.type), stream.host_dtype,
                           stream.period, stream.ipu.value_or(0)});
  }
  for (const ir::Variable& variable : module.variables()) {
    if (variable.shard_over > 1)
      throw Error(
          ErrorCode::kUnsupportedOps,
          fmt::format("unsupported variable: @{} is sharded over {} replicas, which cannot be lowered yet.",
                      variable.name, variable.shard_over));
    shared.variables.emplace(variable.name, static_cast<int>(out.variables.size()));
    int constant = variable.initial != nullptr ? shared.constant(variable.initial) : -1;
    out.variables.push_back({variable.name, variable.role, spec_of(variable.type), variable.ipu.value_or(0),
                             constant, false, variable.type.shape, variable.grouping,
                             variable.retrieval == ir::Retrieval::kAllReplicas});
  }
  for (const ir::Ring& ring : module.rings()) {
    shared.rings.emplace(ring.name, static_cast<int>(out.rings.size()));
    out.rings.push_back(
        {ring.name, spec_of(ring.type).stored_bytes(), ring.capacity, ring.from_ipu, ring.to_ipu});
  }
  for (const std::unique_ptr<Scope>& scope : nest.scopes()) {
    for (const auto& op : scope->graph->ops()) {
      if (!op->is(kind::kVariableRead) && !op->is(kind::kVariableAssign)) continue;
      program::Variable& variable =
          out.variables[shared.variables.at(op->attributes.symbol("variable").name)];
      variable.ipu = nest.home_of(*scope, *op);
      if (variable.ipu == kAnywhere) variable.ipu = 0;
      variable.written |= op->is(kind::kVariableAssign);
    }
  }
}

}  // namespace

program::Program lower(const ir::Module& module, const LowerOptions& options) {
  auto entry = module.entry_points.find(options.entry_point);
  IPU_CHECK(entry != module.entry_points.end(),
            fmt::format("the module has no entry point '{}'", options.entry_point));
  const ir::Graph* graph = module.find_graph(entry->second);
  IPU_CHECK(graph != nullptr,
            fmt::format("entry point '{}' names graph @{}", options.entry_point, entry->second));
  Nest nest(module, *graph);
  Demand demand(nest);

  program::Program out;
  out.replicas = options.replicas;
  out.input_groups = options.input_groups;
  out.device_iterations = options.device_iterations;
  out.accumulation = options.accumulation;
  SharedTables shared;
  shared.program = &out;
  fill_tables(nest, out, shared);
  for (int ipu = 0; ipu < nest.ipu_count(); ++ipu) {
    Draft draft = Drafter(nest, demand, shared, ipu).run();
    std::vector<LiveRange> ranges = live_ranges(draft);
    std::vector<int> representative = coalesce(draft, ranges);
    out.ipus.push_back(place_buffers(draft, representative, ranges));
  }
  program::check_program(out);
  for (const program::IpuProgram& ipu : out.ipus) program::check_plan(ipu);
  program::check_deadlock(out);
  return out;
}

}  // namespace ipu::lowering
