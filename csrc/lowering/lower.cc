// The way from functional IR to a program: number the nest, find what each IPU needs, project, join buffers,
// plan memory, check.
#include "lowering/lower.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

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
    const Shape& whole = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
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

// Code and buffers of a further entry point. What lies in an arena does not outlive a run: all share its bytes.
void append(program::IpuProgram& all, program::IpuProgram entry) {
  const int first = static_cast<int>(all.instructions.size());
  const int first_buffer = static_cast<int>(all.buffers.size());
  all.entries.push_back(first);
  all.arena_bytes = std::max(all.arena_bytes, entry.arena_bytes);
  all.counters = std::max(all.counters, entry.counters);
  if (entry.peak_bytes > all.peak_bytes) {
    all.peak_bytes = entry.peak_bytes;
    all.live_at_peak = std::move(entry.live_at_peak);
    for (int& buffer : all.live_at_peak) buffer += first_buffer;
  }
  std::move(entry.buffers.begin(), entry.buffers.end(), std::back_inserter(all.buffers));
  for (program::Instruction& step : entry.instructions) {
    if (step.target >= 0) step.target += first;
    for (auto* list : {&step.operands, &step.results})
      for (program::Operand& operand : *list)
        if (operand.buffer >= 0) operand.buffer += first_buffer;
    all.instructions.push_back(std::move(step));
  }
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
  IPU_CHECK(!out.entry_points.empty(), "the module has no entry point");
  SharedTables shared;
  shared.program = &out;
  fill_tables(module, out, shared);
  std::vector<std::unique_ptr<Nest>> nests;  // all of them live: tables know their scopes
  std::vector<char> is_placed(out.variables.size(), 0);
  int ipus = 1;
  for (const std::string& name : out.entry_points) {
    const std::string& graph_name = module.entry_points.at(name);
    const ir::Graph* graph = module.find_graph(graph_name);
    IPU_CHECK(graph != nullptr, fmt::format("entry point '{}' names graph @{}", name, graph_name));
    nests.push_back(std::make_unique<Nest>(module, *graph));
    ipus = std::max(ipus, nests.back()->ipu_count());
    find_variables(*nests.back(), out, shared, is_placed);
  }
  out.ipus.resize(static_cast<size_t>(ipus));
  for (const std::unique_ptr<Nest>& nest : nests) {
    const Demand demand(*nest);
    for (int ipu = 0; ipu < ipus; ++ipu) {
      program::IpuProgram code;
      if (ipu < nest->ipu_count()) {
        const Draft draft = Drafter(*nest, demand, shared, ipu).run();
        std::vector<LiveRange> ranges = live_ranges(draft);
        const std::vector<int> representative = coalesce(draft, ranges);
        code = place_buffers(draft, representative, ranges);
      }
      if (nests.size() == 1)
        out.ipus[ipu] = std::move(code);
      else
        append(out.ipus[ipu], std::move(code));
    }
  }
  for (program::Variable& variable : out.variables)
    if (variable.remote_buffer >= 0)
      variable.ipu = out.remote_buffers[static_cast<size_t>(variable.remote_buffer)].ipu;
  program::check_program(out);
  for (const program::IpuProgram& ipu : out.ipus) program::check_plan(ipu);
  program::check_deadlock(out);
  return out;
}

}  // namespace ipu::lowering
