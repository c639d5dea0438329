#include "bindings/core/optimizer_values.h"

#include <map>
#include <string>

#include "bindings/core/python_values.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

optimizers::Kind kind_of(const std::string& name) {
  using optimizers::Kind;
  static const std::map<std::string, Kind> kKinds = {
      {"sgd_combined", Kind::kSgdCombined}, {"sgd_separate", Kind::kSgdSeparate},       {"adam", Kind::kAdam},
      {"rmsprop", Kind::kRmsProp},          {"rmsprop_centred", Kind::kRmsPropCentred}, {"lamb", Kind::kLamb},
      {"lamb_no_bias", Kind::kLambNoBias}};
  const auto at = kKinds.find(name);
  if (at == kKinds.end()) throw Error(ErrorCode::kOptimizer, "unknown optimizer: '" + name + "'.");
  return at->second;
}

}  // namespace

optimizers::Spec optimizer_spec_of(const py::dict& data) {
  optimizers::Spec spec;
  spec.kind = kind_of(data["kind"].cast<std::string>());
  for (const py::handle& entry : data["groups"]) {
    optimizers::Group& group = spec.groups.emplace_back();
    using Hypers = std::map<std::string, std::pair<double, bool>>;
    for (const auto& [name, value] : entry["hyper"].cast<Hypers>())
      group.hyper[name] = {value.first, value.second};
    if (entry.contains("nesterov")) group.nesterov = entry["nesterov"].cast<bool>();
  }
  spec.group_of = data["group_of"].cast<std::map<std::string, int>>();
  const auto [scaling, is_constant] = data["loss_scaling"].cast<std::pair<double, bool>>();
  spec.loss_scaling = {scaling, is_constant};
  return spec;
}

}  // namespace ipu::bindings
