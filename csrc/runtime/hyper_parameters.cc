#include "runtime/hyper_parameters.h"

#include <map>
#include <string>

namespace ipu::runtime {

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
