#include "bindings/core/optimizer_values.h"

#include <fmt/core.h>
#include <pybind11/stl.h>

#include "bindings/core/python_values.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using optimizers::Decay;
using optimizers::Kind;

struct KindAndDecay {
  Kind on_weight, on_gradient;  // by where decay acts, as far as that tells kinds apart
};

const std::map<std::string, KindAndDecay>& kinds() {
  static const std::map<std::string, KindAndDecay> kKinds = {
      {"sgd_combined", {Kind::kSgdCombined, Kind::kSgdCombined}},
      {"sgd_separate", {Kind::kSgdSeparate, Kind::kSgdSeparate}},
      {"adam", {Kind::kAdamW, Kind::kAdam}},
      {"adam_no_bias", {Kind::kAdamWNoBias, Kind::kAdamWNoBias}},
      {"adamax", {Kind::kAdaMax, Kind::kAdaMax}},
      {"lamb", {Kind::kLamb, Kind::kLamb}},
      {"lamb_no_bias", {Kind::kLambNoBias, Kind::kLambNoBias}},
      {"rmsprop", {Kind::kRmsProp, Kind::kRmsProp}},
      {"rmsprop_centred", {Kind::kRmsPropCentred, Kind::kRmsPropCentred}},
      {"adagrad", {Kind::kAdaGrad, Kind::kAdaGrad}},
      {"adadelta", {Kind::kAdaDelta, Kind::kAdaDelta}}};
  return kKinds;
}

py::object entry(const py::dict& data, const char* key, const std::string& what) {
  if (!data.contains(key))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("missing data: {} has no '{}'.", what, key));
  return data[key];
}

optimizers::HyperParameter hyper_of(const py::handle& value, const std::string& what) {
  const auto [number, constant] =
      read<std::pair<double, bool>>(value, what, "a pair of a number and a boolean");
  return {number, constant};
}

DType type_of(const py::handle& value, const std::string& what) {
  const auto name = read<std::string>(value, what, "the name of a type");
  if (name == "FLOAT") return DType::kF32;
  if (name == "FLOAT16") return DType::kF16;
  throw Error(ErrorCode::kOptimizer,
              fmt::format("unsupported type: {} is {}; FLOAT or FLOAT16.", what, name));
}

optimizers::Group group_of(const py::dict& data) {
  optimizers::Group group;
  const std::string what = "a group of the optimizer";
  for (const auto& [key, value] : read<py::dict>(entry(data, "hyper", what), "'hyper'", "a dictionary")) {
    const auto name = read<std::string>(key, "a name in 'hyper'", "a string");
    group.hyper[name] = hyper_of(value, fmt::format("'{}' of {}", name, what));
  }
  const std::pair<const char*, DType optimizers::Group::*> types[] = {
      {"accum", &optimizers::Group::accum_dtype},
      {"first", &optimizers::Group::first_dtype},
      {"second", &optimizers::Group::second_dtype},
      {"third", &optimizers::Group::third_dtype}};
  const auto given = read<py::dict>(entry(data, "types", what), "'types'", "a dictionary");
  for (const auto& [name, member] : types)
    if (given.contains(name)) group.*member = type_of(given[name], fmt::format("'{}' of {}", name, what));
  if (data.contains("nesterov")) group.nesterov = read<bool>(data["nesterov"], "'nesterov'", "a boolean");
  return group;
}

}  // namespace

optimizers::Spec optimizer_spec_of(const py::dict& data) {
  const std::string what = "the optimizer";
  optimizers::Spec spec;
  spec.is_popart = true;
  if (data.contains("decay"))
    spec.decay =
        read<std::string>(data["decay"], "'decay'", "a string") == "l2" ? Decay::kGradient : Decay::kWeight;
  const auto kind = read<std::string>(entry(data, "kind", what), "'kind'", "a string");
  const auto at = kinds().find(kind);
  if (at == kinds().end()) throw Error(ErrorCode::kOptimizer, fmt::format("unknown optimizer: '{}'.", kind));
  spec.kind = spec.decay == Decay::kGradient ? at->second.on_gradient : at->second.on_weight;
  for (const py::handle& group : read<py::list>(entry(data, "groups", what), "'groups'", "a list"))
    spec.groups.push_back(group_of(read<py::dict>(group, "a group of the optimizer", "a dictionary")));
  spec.group_of = read<std::map<std::string, int>>(entry(data, "group_of", what), "'group_of'",
                                                   "a dictionary of integers");
  spec.loss_scaling = hyper_of(entry(data, "loss_scaling", what), "'loss_scaling'");
  for (const py::handle& item : read<py::list>(entry(data, "clip_groups", what), "'clip_groups'", "a list")) {
    const auto clip = read<py::dict>(item, "a group of clipping", "a dictionary");
    spec.clip_groups.push_back(
        {read<std::vector<std::string>>(entry(clip, "weights", "a group of clipping"), "'weights'",
                                        "a list of names"),
         read<double>(entry(clip, "max_norm", "a group of clipping"), "'max_norm'", "a number")});
  }
  const auto flag = [&](const char* key) {
    return data.contains(key) && read<bool>(data[key], fmt::format("'{}'", key), "a boolean");
  };
  spec.scaled_state = flag("scaled_state");
  spec.tf_variant = flag("tf_variant");
  return spec;
}

}  // namespace ipu::bindings
