#include "runtime/hyper_parameters.h"

#include <algorithm>
#include <map>
#include <string>

namespace ipu::runtime {

std::vector<executable::Signature::HyperStream> hyper_streams(const program::Program& program,
                                                              const optimizers::Spec& optimizer) {
  std::map<std::string, int> streams;
  for (size_t s = 0; s < program.streams.size(); ++s) streams[program.streams[s].name] = static_cast<int>(s);
  std::vector<executable::Signature::HyperStream> found;
  const auto look_for = [&](int group, const std::string& name) {
    const auto at = streams.find(optimizers::stream_name(std::max(group, 0), name));
    if (at != streams.end()) found.push_back({at->second, group, name});
  };
  for (int g = 0; g < static_cast<int>(optimizer.groups.size()); ++g)
    for (const auto& [name, value] : optimizers::streamed_hypers(optimizer, g)) look_for(g, name);
  look_for(-1, "loss_scaling");
  return found;
}

HyperParameters::HyperParameters(std::vector<executable::Signature::HyperStream> streams,
                                 optimizers::Spec optimizer)
    : streams_(std::move(streams)), optimizer_(std::move(optimizer)), values_(streams_.size()) {
  update();
}

void HyperParameters::set(const optimizers::Spec& next) {
  optimizers::check_compatible(optimizer_, next);
  for (size_t g = 0; g < optimizer_.groups.size(); ++g)
    for (auto& [name, hyper] : optimizer_.groups[g].hyper) {
      auto at = next.groups[g].hyper.find(name);
      if (at != next.groups[g].hyper.end()) hyper.value = at->second.value;
    }
  optimizer_.loss_scaling.value = next.loss_scaling.value;
  update();
}

void HyperParameters::update() {
  std::vector<std::map<std::string, double>> groups;
  for (size_t g = 0; g < optimizer_.groups.size(); ++g)
    groups.push_back(optimizers::streamed_hypers(optimizer_, static_cast<int>(g)));
  for (size_t i = 0; i < streams_.size(); ++i) {
    const int group = streams_[i].group;
    values_[i] = static_cast<float>(group < 0 ? optimizer_.loss_scaling.value
                                              : groups[static_cast<size_t>(group)].at(streams_[i].name));
  }
}

void HyperParameters::bind(std::span<emulator::ArrayPort> arrays) {
  for (size_t i = 0; i < streams_.size(); ++i)
    arrays[static_cast<size_t>(streams_[i].stream)].bind(reinterpret_cast<std::byte*>(&values_[i]), 1);
}

}  // namespace ipu::runtime
