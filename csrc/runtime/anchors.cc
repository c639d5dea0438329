#include "runtime/anchors.h"

#include "program/host_elements.h"

namespace ipu::runtime {

Anchors::Anchors(const program::Program* program, const std::map<std::string, int>& streams) {
  if (streams.empty()) return;
  const std::vector<program::HostElements> elements = program::host_elements(*program, 0);
  for (const auto& [name, number] : streams) {
    const program::Stream& stream = program->streams.at(static_cast<size_t>(number));
    Anchor anchor;
    anchor.stream = number;
    anchor.elements = elements[static_cast<size_t>(number)].count();
    anchor.value.dtype = stream.host_dtype;
    anchor.value.shape = elements[static_cast<size_t>(number)].shape(stream.spec.shape);
    anchor.bytes = size_in_bytes(stream.host_dtype, anchor.value.shape);
    anchors_.emplace(name, std::move(anchor));
  }
}

HostArray Anchors::value(const std::string& name) const {
  auto found = anchors_.find(name);
  return found == anchors_.end() ? HostArray() : found->second.value;
}

void Anchors::bind(std::span<emulator::ArrayPort> arrays) {
  for (auto& [name, anchor] : anchors_) {
    anchor.value.data = std::make_shared_for_overwrite<std::byte[]>(static_cast<size_t>(anchor.bytes));
    arrays[static_cast<size_t>(anchor.stream)].bind(anchor.value.data.get(), anchor.elements);
  }
}

}  // namespace ipu::runtime
