#include "ir/module.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::ir {
namespace {

template <typename Table>
std::string unique_key(const Table& table, std::string_view hint, std::string_view fallback) {
  std::string base(hint.empty() ? fallback : hint);
  if (!table.contains(base)) return base;
  for (int suffix = 1;; ++suffix) {
    std::string name = fmt::format("{}_{}", base, suffix);
    if (!table.contains(name)) return name;
  }
}

template <typename T>
T& add(std::list<T>& list, std::unordered_map<std::string, T*>& by_name, T item, std::string_view fallback) {
  item.name = unique_key(by_name, item.name, fallback);
  list.push_back(std::move(item));
  T& added = list.back();
  by_name.emplace(added.name, &added);
  return added;
}

template <typename T>
T* find(const std::unordered_map<std::string, T*>& by_name, std::string_view name) {
  auto at = by_name.find(std::string(name));
  return at == by_name.end() ? nullptr : at->second;
}

}  // namespace

Module::Module() = default;
Module::~Module() = default;

Graph* Module::add_graph(std::string_view name_hint) {
  std::unique_ptr<Graph> owned(new Graph);
  Graph* graph = owned.get();
  graph->name_ = unique_key(graph_by_name_, name_hint, "graph");
  graph->module_ = this;
  graphs_.push_back(std::move(owned));
  graph_by_name_.emplace(graph->name_, graph);
  return graph;
}

Graph* Module::find_graph(std::string_view name) const { return find(graph_by_name_, name); }

void Module::erase_graph(Graph* graph) {
  graph_by_name_.erase(graph->name_);
  graphs_.remove_if([&](const std::unique_ptr<Graph>& owned) { return owned.get() == graph; });
}

Variable& Module::add_variable(Variable variable) {
  return add(variables_, variable_by_name_, std::move(variable), "variable");
}
Variable* Module::find_variable(std::string_view name) { return find(variable_by_name_, name); }
const Variable* Module::find_variable(std::string_view name) const { return find(variable_by_name_, name); }
Stream& Module::add_stream(Stream stream) {
  return add(streams_, stream_by_name_, std::move(stream), "stream");
}
Stream* Module::find_stream(std::string_view name) { return find(stream_by_name_, name); }
const Stream* Module::find_stream(std::string_view name) const { return find(stream_by_name_, name); }
Ring& Module::add_ring(Ring ring) { return add(rings_, ring_by_name_, std::move(ring), "ring"); }
Ring* Module::find_ring(std::string_view name) { return find(ring_by_name_, name); }
const Ring* Module::find_ring(std::string_view name) const { return find(ring_by_name_, name); }

RemoteBuffer& Module::add_remote_buffer(RemoteBuffer buffer) {
  return add(remote_buffers_, remote_buffer_by_name_, std::move(buffer), "remote_buffer");
}
const RemoteBuffer* Module::find_remote_buffer(std::string_view name) const {
  return find(remote_buffer_by_name_, name);
}

}  // namespace ipu::ir
