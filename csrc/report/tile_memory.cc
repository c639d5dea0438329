#include "report/tile_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/structure.h"
#include "report/live_values.h"
#include "support/checked.h"

namespace ipu::report {

int ipu_of(const ir::Variable& variable) { return variable.ipu.value_or(0); }
int ipu_of(const ir::Ring& ring) { return ring.to_ipu; }
int64_t bytes_of(const ir::Ring& ring) { return (Checked(ring.type.bytes()) * ring.capacity).value(); }

std::vector<int> ipus_of(const ir::Module& module) {
  std::set<int> used;
  for (const ir::Variable& variable : module.variables())
    if (variable.remote_buffer.empty()) used.insert(ipu_of(variable));
  for (const ir::Ring& ring : module.rings()) used.insert({ring.from_ipu, ipu_of(ring)});
  for (const auto& graph : module.graphs()) {
    for (const ir::Value* input : graph->inputs()) used.insert(ipu_of(*input));
    for (const auto& op : graph->ops()) {
      if (op->settings.ipu) used.insert(*op->settings.ipu);
      if (op->is(ir::kind::kIpuCopy)) used.insert(static_cast<int>(op->attributes.integer("from")));
      for (int i = 0; i < op->result_count(); ++i) used.insert(ipu_of(*op->result(i)));
    }
  }
  if (used.empty()) used.insert(0);
  return {used.begin(), used.end()};
}

std::vector<IpuMemory> tile_memory(const ir::Module& module) {
  struct Tables {
    Checked variables = 0, constants = 0, rings = 0;
  };
  std::map<int, Tables> tables;
  for (const ir::Variable& variable : module.variables())
    if (variable.remote_buffer.empty()) tables[ipu_of(variable)].variables += variable.type.bytes();
  for (const ir::Ring& ring : module.rings()) tables[ipu_of(ring)].rings += bytes_of(ring);
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (op->is(ir::kind::kConstant))
        tables[ipu_of(*op->result())].constants += op->result()->type().bytes();
  const std::vector<int> ipus = ipus_of(module);
  const std::vector<int64_t> live = live_at_peak(module, ipus);
  std::vector<IpuMemory> memory;
  for (size_t i = 0; i < ipus.size(); ++i) {
    const Tables& of_ipu = tables[ipus[i]];
    memory.push_back(
        {ipus[i], of_ipu.variables.value(), of_ipu.constants.value(), of_ipu.rings.value(), live[i]});
  }
  return memory;
}

int64_t most_memory(const ir::Module& fork) {
  double values = 0, variables = 0;
  int stages = 1;
  for (const auto& graph : fork.graphs())
    for (const auto& op : graph->ops()) {
      stages = std::max(stages, op->settings.stage.value_or(0) + 1);
      for (int i = 0; i < op->result_count(); ++i)
        values += static_cast<double>(op->result(i)->type().bytes());
    }
  for (const ir::Variable& variable : fork.variables())
    if (variable.remote_buffer.empty()) variables += static_cast<double>(variable.type.bytes());
  const double most = variables + values * (2.0 * stages);
  return most < 9e18 ? static_cast<int64_t>(most) : INT64_MAX;
}

int64_t streaming_memory(const ir::Module& module) {
  Checked bytes = 0;
  for (const ir::RemoteBuffer& buffer : module.remote_buffers())
    bytes += Checked(buffer.type.bytes()) * buffer.entries;
  return bytes.value();
}

}  // namespace ipu::report
