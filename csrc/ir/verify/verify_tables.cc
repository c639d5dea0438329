// Rules of the tables of a module: variables, remote buffers, streams, rings, entry points.
#include <fmt/core.h>

#include "ir/replicas.h"
#include "ir/verify/verifier_rules.h"

namespace ipu::ir {
namespace {

// Whether the elements of a shape can be counted and cut into `parts`.
bool has_size(const Shape& shape, int64_t parts) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return false;
  return !__builtin_add_overflow(count, parts, &count);
}

}  // namespace

void Verifier::tables() {
  replicas_ = replica_count(module_);
  for (const char* name : {"replicas", "processes"}) {
    const Attribute* value = module_.attributes.find(name);
    const int64_t* n = value ? std::get_if<int64_t>(value) : nullptr;
    if (value != nullptr && (n == nullptr || *n < 1 || replicas_ % *n != 0)) {
      report(
          fmt::format("module attribute '{}' is an integer of at least 1 that divides the replicas", name));
      replicas_ = 1;
    }
  }
  for (const RemoteBuffer& b : module_.remote_buffers())
    if (b.entries < 1) report(fmt::format("remote buffer {} has {} entries", at(b.name), b.entries));
  for (const Variable& v : module_.variables()) variable(v);
  for (const Stream& s : module_.streams()) {
    if (s.period < 1) report(fmt::format("stream {} has period {}", at(s.name), s.period));
    if (s.block < 1) report(fmt::format("stream {} has blocks of {} elements", at(s.name), s.block));
  }
  for (const Ring& r : module_.rings())
    if (r.capacity < 1) report(fmt::format("ring {} has capacity {}", at(r.name), r.capacity));
}

void Verifier::variable(const Variable& v) {
  std::string name = "variable " + at(v.name);
  if (v.shard_over < 1) return report(fmt::format("{} is sharded over {} replicas", name, v.shard_over));
  if (v.grouping.stride < 1 || v.grouping.size < 0)
    return report(
        fmt::format("{} has a grouping of stride {} and size {}", name, v.grouping.stride, v.grouping.size));
  if (v.shard_over > 1 && !has_size(v.meta_shape, v.shard_over))
    return report(fmt::format("{} has no unsharded size: {} over {} replicas", name,
                              to_string(Type{v.type.dtype, v.meta_shape}), v.shard_over));
  if (v.shard_over > 1 && v.type.shape != Shape{shard_elements(v.meta_shape, v.shard_over)})
    report(fmt::format("{} is {}, a shard of {} over {} replicas is {}", name, to_string(v.type),
                       to_string(Type{v.type.dtype, v.meta_shape}), v.shard_over,
                       to_string(Type{v.type.dtype, {shard_elements(v.meta_shape, v.shard_over)}})));
  replicas(v, name);
  if (v.remote_buffer.empty()) return;
  const RemoteBuffer* buffer = module_.find_remote_buffer(v.remote_buffer);
  if (buffer == nullptr)
    return report(
        fmt::format("{} lives in remote buffer {}, which does not exist", name, at(v.remote_buffer)));
  if (buffer->type != v.type)
    report(fmt::format("{} is {}, an entry of {} is {}", name, to_string(v.type), at(buffer->name),
                       to_string(buffer->type)));
  if (v.remote_entry < 0 || v.remote_entry >= buffer->entries)
    report(fmt::format("{} lives in entry {} of {}, which has {}", name, v.remote_entry, at(buffer->name),
                       buffer->entries));
}

void Verifier::replicas(const Variable& v, const std::string& name) {
  const bool is_counted = module_.attributes.has("replicas");
  if (is_counted) {
    std::string problem = v.grouping.problem(replicas_);
    if (!problem.empty()) return report(fmt::format("{}: its grouping {}", name, problem));
    const auto size = static_cast<int64_t>(v.grouping.members(replicas_)[0].size());
    if (size % v.shard_over != 0)
      report(fmt::format("{} is sharded over {} replicas of a group of {}", name, v.shard_over, size));
  }
  if (v.initial == nullptr) return;
  const Shape& given = v.initial->shape;
  // One number for all elements, one value for all groups, or one for each.
  const bool fits = given.empty() || given == (v.shard_over == 1 ? v.type.shape : v.meta_shape) ||
                    (is_counted && given == host_shape(v, replicas_));
  if (v.initial->dtype != v.type.dtype || !fits)
    report(fmt::format("{} is {}, its initial value {}", name, to_string(v.type),
                       to_string(Type{v.initial->dtype, given})));
}

void Verifier::entry_points() {
  for (const auto& [name, graph_name] : module_.entry_points) {
    const Graph* graph = module_.find_graph(graph_name);
    if (graph == nullptr) {
      report(fmt::format("entry point '{}' is {}, which does not exist", name, at(graph_name)));
      continue;
    }
    entry_graphs_.insert(graph);
    if (!graph->inputs().empty())
      report(fmt::format("entry graph {} has inputs; it is run without arguments", at(graph_name)));
  }
}

}  // namespace ipu::ir
