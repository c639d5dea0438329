// Rules of the tables of a module: variables, remote buffers, streams, rings, entry points.
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
      report(std::string("module attribute '") + name +
             "' is an integer of at least 1 that divides the replicas");
      replicas_ = 1;
    }
  }
  for (const RemoteBuffer& b : module_.remote_buffers())
    if (b.entries < 1) report("remote buffer " + at(b.name) + " has " + number(b.entries) + " entries");
  for (const Variable& v : module_.variables()) variable(v);
  for (const Stream& s : module_.streams())
    if (s.period < 1) report("stream " + at(s.name) + " has period " + number(s.period));
  for (const Ring& r : module_.rings())
    if (r.capacity < 1) report("ring " + at(r.name) + " has capacity " + number(r.capacity));
}

void Verifier::variable(const Variable& v) {
  std::string name = "variable " + at(v.name);
  if (v.shard_over < 1) return report(name + " is sharded over " + number(v.shard_over) + " replicas");
  if (v.grouping.stride < 1 || v.grouping.size < 0)
    return report(name + " has a grouping of stride " + number(v.grouping.stride) + " and size " +
                  number(v.grouping.size));
  if (v.shard_over > 1 && !has_size(v.meta_shape, v.shard_over))
    return report(name + " has no unsharded size: " + to_string(Type{v.type.dtype, v.meta_shape}) + " over " +
                  number(v.shard_over) + " replicas");
  if (v.shard_over > 1 && v.type.shape != Shape{shard_elements(v.meta_shape, v.shard_over)})
    report(name + " is " + to_string(v.type) + ", a shard of " + to_string(Type{v.type.dtype, v.meta_shape}) +
           " over " + number(v.shard_over) + " replicas is " +
           to_string(Type{v.type.dtype, {shard_elements(v.meta_shape, v.shard_over)}}));
  replicas(v, name);
  if (v.remote_buffer.empty()) return;
  const RemoteBuffer* buffer = module_.find_remote_buffer(v.remote_buffer);
  if (buffer == nullptr)
    return report(name + " lives in remote buffer " + at(v.remote_buffer) + ", which does not exist");
  if (buffer->type != v.type)
    report(name + " is " + to_string(v.type) + ", an entry of " + at(buffer->name) + " is " +
           to_string(buffer->type));
  if (v.remote_entry < 0 || v.remote_entry >= buffer->entries)
    report(name + " lives in entry " + number(v.remote_entry) + " of " + at(buffer->name) + ", which has " +
           number(buffer->entries));
}

void Verifier::replicas(const Variable& v, const std::string& name) {
  const bool is_counted = module_.attributes.has("replicas");
  if (is_counted) {
    std::string problem = v.grouping.problem(replicas_);
    if (!problem.empty()) return report(name + ": its grouping " + problem);
    const auto size = static_cast<int64_t>(v.grouping.members(replicas_)[0].size());
    if (size % v.shard_over != 0)
      report(name + " is sharded over " + number(v.shard_over) + " replicas of a group of " + number(size));
  }
  if (v.initial == nullptr) return;
  const Shape& given = v.initial->shape;
  const bool fits =
      (v.shard_over == 1 && given == v.type.shape) ||
      (is_counted ? given == host_shape(v, replicas_) : v.shard_over > 1 && given == v.meta_shape);
  if (v.initial->dtype != v.type.dtype || !fits)
    report(name + " is " + to_string(v.type) + ", its initial value " +
           to_string(Type{v.initial->dtype, given}));
}

void Verifier::entry_points() {
  for (const auto& [name, graph_name] : module_.entry_points) {
    const Graph* graph = module_.find_graph(graph_name);
    if (graph == nullptr) {
      report("entry point '" + name + "' is " + at(graph_name) + ", which does not exist");
      continue;
    }
    entry_graphs_.insert(graph);
    if (!graph->inputs().empty())
      report("entry graph " + at(graph_name) + " has inputs; it is run without arguments");
  }
}

}  // namespace ipu::ir
