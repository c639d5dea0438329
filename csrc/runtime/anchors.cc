#include "runtime/anchors.h"

#include "emulator/host_stream.h"

namespace ipu::runtime {

Anchors::Anchors(const program::Program* program, const std::map<std::string, int>& streams) {
  for (const auto& [name, number] : streams) {
    const program::Stream& stream = program->streams.at(static_cast<size_t>(number));
    Anchor anchor;
    anchor.stream = number;
    anchor.elements = emulator::HostStream(stream, *program).elements_per_run();
    anchor.value.dtype = stream.host_dtype;
    anchor.value.shape = stream.spec.shape;
    if (!anchor.value.shape.empty())
      anchor.value.shape[0] *= anchor.elements;
    else if (anchor.elements > 1)
      anchor.value.shape.push_back(anchor.elements);
    anchor.bytes = size_in_bytes(stream.host_dtype, anchor.value.shape);
    anchors_.emplace(name, std::move(anchor));
  }
}

HostArray Anchors::value(const std::string& name) const {
  auto found = anchors_.find(name);
  return found == anchors_.end() ? HostArray() : found->second.value;
}

void Anchors::bind(std::span<emulator::StreamBinding> bindings) {
  for (auto& [name, anchor] : anchors_) {
    anchor.value.data = std::make_shared_for_overwrite<std::byte[]>(static_cast<size_t>(anchor.bytes));
    bindings[static_cast<size_t>(anchor.stream)] = {anchor.value.data.get(), anchor.elements};
  }
}

}  // namespace ipu::runtime
