#include "bindings/compile_settings.h"

#include "python/settings.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using python::Settings;

optimizers::HyperParameter hyper_of(const py::handle& value) {
  auto pair = value.cast<std::pair<double, bool>>();
  return {pair.first, pair.second};
}

DType state_dtype(const py::dict& d, const char* key) {
  if (!d.contains(key) || d[key].is_none()) return DType::kF32;
  auto text = d[key].cast<std::string>();
  if (text == "float32") return DType::kF32;
  if (text == "float16") return DType::kF16;
  std::optional<DType> dtype = dtype_from_string(text);
  if (!dtype || !is_floating_point(*dtype)) {
    throw Error(ErrorCode::kOptimizer,
                std::string("unsupported type: ") + key + " = " + text + "; float32 or float16");
  }
  return *dtype;
}

// One family of poptorch's TensorLocationSettings.
frontends::TensorLocation location_of(Settings& of_all, const char* family) {
  Settings d(of_all.get(family, py::dict()), family);
  frontends::TensorLocation location;
  const auto flag = [&](const char* name, bool otherwise) { return d.get<int64_t>(name, otherwise) != 0; };
  location.off_chip = !flag("onChip", true);
  location.is_sharded = flag("useReplicatedTensorSharding", false);
  location.loads_io = flag("useIOTilesToLoad", false);
  location.stores_io = flag("useIOTilesToStore", false);
  location.min_elements_off_chip = d.get("minElementsForOffChip", location.min_elements_off_chip);
  location.min_elements_sharded =
      d.get("minElementsForReplicatedTensorSharding", location.min_elements_sharded);
  d.refuse_others();
  return location;
}

frontends::LossScaling loss_scaling_of(const py::dict& d) {
  frontends::LossScaling scaling;
  scaling.is_automatic = true;
  const auto tracking = d["tracking"].cast<int64_t>();
  if (tracking < 0 || tracking > 1)
    throw Error(
        ErrorCode::kOption,
        "unsupported tracking of gradients: automaticLossScalingSettings.gradientTensorTrackingMethod is " +
            std::to_string(tracking) +
            ", and PyTorch programs cannot name gradients. Use 0 (all gradients but those of views) or 1 "
            "(those of inputs of products and convolutions)",
        kPopartException);
  scaling.tracking = static_cast<frontends::LossScaling::Tracking>(tracking);
  scaling.bin_edge = d["bin_edge"].cast<double>();
  scaling.upper_proportion = d["upper_proportion"].cast<double>();
  scaling.period = d["period"].cast<int64_t>();
  return scaling;
}

frontends::PhaseOptions phases_of(const py::dict& d) {
  frontends::PhaseOptions phases;
  phases.is_parallel = d["parallel"].cast<bool>();
  phases.has_separate_backward = d["separate_backward"].cast<bool>();
  phases.liveness = static_cast<frontends::Liveness>(d["liveness"].cast<int>());
  phases.declared = d["declared"].cast<int64_t>();
  return phases;
}

}  // namespace

optimizers::Spec optimizer_of(const py::dict& d) {
  optimizers::Spec spec;
  spec.kind = static_cast<optimizers::Kind>(d["kind"].cast<int>());
  for (const py::handle& entry : d["groups"]) {
    optimizers::Group group;
    for (const auto& [key, value] : entry.cast<py::dict>()) {
      auto name = key.cast<std::string>();
      if (name == "nesterov")
        group.nesterov = value.cast<bool>();
      else
        group.hyper[name] = hyper_of(value);
    }
    spec.groups.push_back(std::move(group));
  }
  spec.group_of = d["group_of"].cast<std::map<std::string, int>>();
  if (d.contains("loss_scaling")) spec.loss_scaling = hyper_of(d["loss_scaling"]);
  spec.accum_dtype = state_dtype(d, "accum_dtype");
  spec.velocity_dtype = state_dtype(d, "velocity_dtype");
  spec.second_dtype = state_dtype(d, "second_dtype");
  if (d.contains("max_grad_norm")) spec.max_grad_norm = d["max_grad_norm"].cast<double>();
  if (d.contains("tf_variant")) spec.tf_variant = d["tf_variant"].cast<bool>();
  return spec;
}

tf::CompileSettings settings_of(const py::dict& data) {
  tf::CompileSettings s;
  Settings d(data, "the compiler");
  auto number = [&](const char* name, int64_t otherwise) { return d.get(name, otherwise); };
  auto flag = [&](const char* name, bool otherwise) { return d.get(name, otherwise); };
  auto text = [&](const char* name, const char* otherwise) { return d.get<std::string>(name, otherwise); };
  auto part = [&](const char* name) { return d.get(name, py::dict()); };
  s.step.training = flag("training", false);
  s.step.device_iterations = number("device_iterations", 1);
  s.step.accumulation = number("gradient_accumulation", 1);
  s.compile.replicas = static_cast<int>(number("replication_factor", 1));
  s.compile.processes = static_cast<int>(number("processes", 1));
  using Groups = std::pair<int64_t, int64_t>;  // size and stride
  auto groups_of = [](const Groups& groups) { return ReplicaGrouping{groups.second, groups.first, {}}; };
  if (d.has("input_groups")) s.compile.input_groups = groups_of(d.get("input_groups", Groups()));
  s.broadcast_buffers = flag("broadcast_buffers", true);
  using Grouping = std::pair<Groups, bool>;
  for (const auto& [name, grouping] : d.get<std::map<std::string, Grouping>>("replica_groupings", {}))
    s.groupings[name] = {groups_of(grouping.first), grouping.second};
  s.output_mode = static_cast<ir::OutputMode>(number("output_mode", s.step.training ? 0 : 2));
  s.output_period = number("output_period", 1);
  if (d.has("schedule")) s.step.schedule = ir::schedule_from_string(text("schedule", ""));
  for (const auto& [id, place] : d.get<std::map<std::string, std::vector<int>>>("places", {}))
    s.step.places[id] = {place.at(0), place.at(1), place.size() > 2 ? place[2] : 0};
  if (d.has("phases")) s.step.phases = phases_of(part("phases"));
  s.step.weights = location_of(d, "location_weight");
  s.step.optimizer_state = location_of(d, "location_optimizer");
  s.step.accumulators = location_of(d, "location_accumulator");
  s.step.activations = location_of(d, "location_activation");
  s.step.io_tiles = number("io_tiles", 0);
  s.step.prefetch_depth = number("prefetch_depth", 1);
  s.step.mean_reduction = flag("mean_reduction", true);
  s.step.running_mean = flag("running_mean", false);
  s.step.recomputation = ir::recomputation_mode(number("recomputation", 0));
  s.compile.auto_round_num_ipus = flag("auto_round_num_ipus", false);
  s.cache.directory = text("cache_directory", "");
  s.cache.version = text("version", "");
  s.available_memory = d.get<std::map<int, double>>("available_memory", {});
  s.product_partials = text("product_partials", "float");
  s.convolution_partials = text("convolution_partials", "float");
  s.offline_ipu_version = static_cast<int>(number("offline_ipu_version", 0));
  s.compile.any_ipu_count = flag("any_ipu_count", false);
  s.compile.is_dry = flag("dry", false);
  if (d.has("loss_scaling")) s.step.loss_scaling = loss_scaling_of(part("loss_scaling"));
  s.step.half_products = s.product_partials == "half";
  s.step.half_convolutions = s.convolution_partials == "half";
  s.step.stochastic_rounding = flag("stochastic_rounding", false);
  using Entry = std::tuple<std::string, std::string, int, int64_t>;
  for (const auto& [short_name, long_name, mode, period] : d.get<std::vector<Entry>>("anchors", {}))
    s.anchors.push_back({short_name, long_name, static_cast<ir::OutputMode>(mode), period});
  if (d.has("optimizer")) s.step.optimizer = optimizer_of(part("optimizer"));
  d.refuse_others();
  return s;
}

}  // namespace ipu::bindings
