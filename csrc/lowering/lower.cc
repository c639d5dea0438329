// The way from functional IR to a program: number the nest, find what each IPU needs, project, join buffers,
// plan memory, check.
#include "lowering/lower.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/strategy.h"
#include "ir/structure.h"
#include "lowering/drafter.h"
#include "lowering/link.h"
#include "lowering/subroutine.h"
#include "support/error.h"

namespace ipu::lowering {
namespace {

namespace kind = ir::kind;

program::StreamMode mode_of(const ir::Stream& stream) {
  if (stream.direction == ir::StreamDirection::kHostToDevice)
    return stream.constant ? program::StreamMode::kConstantInput : program::StreamMode::kInput;
  return static_cast<program::StreamMode>(stream.mode);
}

// Variables lie where the first entry point has them that touches them; what any of them writes is written.
void find_variables(const Nest& nest, program::Program& out, SharedTables& shared,
                    std::vector<char>& is_placed) {
  for (const std::unique_ptr<Scope>& scope : nest.scopes()) {
    for (const auto& op : scope->graph->ops()) {
      if (!op->is(kind::kVariableRead) && !op->is(kind::kVariableAssign)) continue;
      const int number = shared.variables.at(op->attributes.symbol("variable").name);
      program::Variable& variable = out.variables[number];
      variable.written |= op->is(kind::kVariableAssign);
      const int home = std::max(nest.home_of(*scope, *op), 0);
      if (is_placed[number] != 0 && variable.ipu != home)
        throw Error(ErrorCode::kUnsupportedOps,
                    fmt::format("unsupported variable: @{} is on IPU {} in one entry point and on IPU {} in "
                                "another.\n  try:      copy its value to the other IPU",
                                variable.name, variable.ipu, home))
            .at(ir::user_line(op->location));
      variable.ipu = home;
      is_placed[number] = 1;
      if (variable.remote_buffer >= 0) shared.place_remote_buffer(variable.remote_buffer, home, *op);
    }
  }
}

// Tables in the order of the module's, so that indices mean the same in both.
void fill_tables(const ir::Module& module, program::Program& out, SharedTables& shared) {
  for (const ir::Stream& stream : module.streams()) {
    shared.streams.emplace(stream.name, static_cast<int>(out.streams.size()));
    out.streams.push_back({stream.name, mode_of(stream), spec_of(stream.type), stream.host_dtype,
                           stream.period, stream.block, stream.ipu.value_or(0)});
  }
  for (const ir::RemoteBuffer& buffer : module.remote_buffers()) {
    shared.remote_buffers.emplace(buffer.name, static_cast<int>(out.remote_buffers.size()));
    out.remote_buffers.push_back({buffer.name, spec_of(buffer.type), buffer.entries, 0});
  }
  for (const ir::Variable& variable : module.variables()) {
    shared.variables.emplace(variable.name, static_cast<int>(out.variables.size()));
    int constant = variable.initial != nullptr ? shared.constant(variable.initial) : -1;
    const Layout& layout = variable.type.layout;
    // A matrix whose panels run along its last dimension is stored as the host has it (program/stored_panels.h).
    const bool is_as_stored = layout.is_blocked() && layout.rank() == 2 && layout.cut() == 1;
    const Shape whole = variable.shard_over > 1 ? variable.meta_shape
                        : is_as_stored          ? Shape()
                                                : variable.type.shape;
    // What is stored to a remote buffer may be in a variable.
    const bool is_remote = !variable.remote_buffer.empty();
    out.variables.push_back(
        {variable.name, variable.role, spec_of(variable.type), variable.ipu.value_or(0), constant, is_remote,
         whole, variable.grouping, variable.retrieval == ir::Retrieval::kAllReplicas, variable.shard_over,
         is_remote ? shared.remote_buffers.at(variable.remote_buffer) : -1, variable.remote_entry});
  }
  for (const ir::Ring& ring : module.rings()) {
    shared.rings.emplace(ring.name, static_cast<int>(out.rings.size()));
    out.rings.push_back(
        {ring.name, spec_of(ring.type).stored_bytes(), ring.capacity, ring.from_ipu, ring.to_ipu});
  }
}

program::IpuProgram planned(Draft draft, const std::vector<program::Stream>& streams) {
  compute_in_place(draft, streams);
  std::vector<LiveRange> ranges = live_ranges(draft);
  const std::vector<int> representative = coalesce(draft, ranges);
  return place_buffers(draft, representative, ranges);
}

// Its parameters are the buffers that say so; one that no step names gets a buffer all the same.
SubroutineCode with_interface(const Subroutine& subroutine, int ipu, program::IpuProgram code) {
  SubroutineCode result;
  result.interface.name = subroutine.graph().name();
  std::unordered_map<int, int> buffer_of;
  for (size_t b = 0; b < code.buffers.size(); ++b) {
    if (code.buffers[b].storage != program::Storage::kParameter) continue;
    buffer_of.emplace(std::exchange(code.buffers[b].index, -1), static_cast<int>(b));
  }
  auto parameter = [&](int number, const ir::Value& value) {
    auto [at, added] = buffer_of.try_emplace(number, static_cast<int>(code.buffers.size()));
    if (added)
      code.buffers.push_back(
          {value.name(), program::Storage::kParameter, spec_of(value.type()).stored_bytes(), 0, -1});
    return at->second;
  };
  const ir::Graph& graph = subroutine.graph();
  for (int i : subroutine.inputs(ipu)) result.interface.inputs.push_back(parameter(i, *graph.inputs()[i]));
  for (int i : subroutine.outputs(ipu))
    result.interface.outputs.push_back(
        parameter(static_cast<int>(graph.inputs().size()) + i, *graph.outputs()[i]));
  result.code = std::move(code);
  return result;
}

// Which of an IPU's subroutines each is.
void number(Subroutines& subroutines, int ipus) {
  std::vector<int> next(static_cast<size_t>(ipus), 0);
  for (const std::unique_ptr<Subroutine>& subroutine : subroutines.list)
    for (int ipu = 0; ipu < ipus; ++ipu)
      subroutine->numbers.push_back(subroutine->is_active(ipu) ? next[static_cast<size_t>(ipu)]++ : -1);
}

}  // namespace

std::vector<std::string> entry_points_of(const ir::Module& module) {
  std::vector<std::string> names;
  if (module.entry_points.contains("main")) names.emplace_back("main");
  for (const auto& [name, graph] : module.entry_points)
    if (name != "main") names.push_back(name);
  return names;
}

program::Program lower(const ir::Module& module, const LowerOptions& options) {
  program::Program out;
  out.replicas = options.replicas;
  out.processes = options.processes;
  out.input_groups = options.input_groups;
  out.entry_points = entry_points_of(module);
  if (out.entry_points.empty())
    throw Error(ErrorCode::kInvalidIr, "no entry point: the module says of no graph that a run begins there");
  std::vector<const ir::Graph*> entries;
  for (const std::string& name : out.entry_points) {
    const std::string& graph_name = module.entry_points.at(name);
    entries.push_back(module.find_graph(graph_name));
    IPU_CHECK(entries.back() != nullptr, fmt::format("entry point '{}' names graph @{}", name, graph_name));
    IPU_CHECK(entries.back()->inputs().empty(), fmt::format("the entry graph @{} has inputs", graph_name));
  }
  const Processors processors(module, entries);
  Subroutines subroutines = find_subroutines(module, entries);
  SharedTables shared;
  shared.program = &out;
  shared.prefetch_depth = ir::strategy_of(module).prefetch_depth;
  fill_tables(module, out, shared);
  std::vector<std::unique_ptr<Nest>> nests;  // all of them live: tables know their scopes
  std::vector<std::unique_ptr<Demand>> demands;
  std::vector<char> is_placed(out.variables.size(), 0);
  int ipus = 1;
  for (const ir::Graph* graph : entries) {
    nests.push_back(std::make_unique<Nest>(module, *graph, &subroutines, &processors));
    demands.push_back(std::make_unique<Demand>(*nests.back()));
    ipus = std::max(ipus, nests.back()->ipu_count());
    find_variables(*nests.back(), out, shared, is_placed);
  }
  number(subroutines, ipus);
  out.ipus.resize(static_cast<size_t>(ipus));
  std::vector<std::vector<program::IpuProgram>> code(static_cast<size_t>(ipus));  // [ipu][entry point]
  std::vector<std::vector<SubroutineCode>> called(static_cast<size_t>(ipus));
  for (size_t e = 0; e < nests.size(); ++e)
    for (int ipu = 0; ipu < ipus; ++ipu)
      code[static_cast<size_t>(ipu)].push_back(
          ipu < nests[e]->ipu_count()
              ? planned(Drafter(*nests[e], *demands[e], shared, ipu).run(), out.streams)
              : program::IpuProgram());
  for (const std::unique_ptr<Subroutine>& subroutine : subroutines.list)
    for (int ipu = 0; ipu < ipus; ++ipu) {
      if (!subroutine->is_active(ipu)) continue;
      Drafter drafter(subroutine->nest(), subroutine->demand(), shared, ipu);
      called[static_cast<size_t>(ipu)].push_back(
          with_interface(*subroutine, ipu, planned(drafter.run_subroutine(*subroutine), out.streams)));
    }
  for (size_t ipu = 0; ipu < code.size(); ++ipu)
    out.ipus[ipu] = link(std::move(code[ipu]), std::move(called[ipu]));
  for (size_t i = 0; i < processors.io_tiles().size(); ++i)
    out.ipus[static_cast<size_t>(processors.first_io()) + i].io_of = processors.io_tiles()[i].ipu;
  for (program::Variable& variable : out.variables)
    if (variable.remote_buffer >= 0)
      variable.ipu = out.remote_buffers[static_cast<size_t>(variable.remote_buffer)].ipu;
  program::check_program(out);
  for (const program::IpuProgram& ipu : out.ipus) program::check_plan(ipu);
  program::check_deadlock(out);
  return out;
}

}  // namespace ipu::lowering
