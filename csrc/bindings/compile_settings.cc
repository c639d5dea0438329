#include "bindings/compile_settings.h"

#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;

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

// Reads the keys of one family of poptorch's TensorLocationSettings. Unset keys are left to the back end.
frontends::TensorLocation location_of(const py::dict& settings, const char* family) {
  frontends::TensorLocation location;
  if (!settings.contains(family)) return location;
  const auto d = settings[family].cast<std::map<std::string, int64_t>>();
  auto value = [&](const char* key, int64_t otherwise) {
    auto at = d.find(key);
    return at == d.end() ? otherwise : at->second;
  };
  location.off_chip = value("onChip", 1) == 0;
  location.is_sharded = value("useReplicatedTensorSharding", 0) != 0;
  location.loads_io = value("useIOTilesToLoad", 0) != 0;
  location.stores_io = value("useIOTilesToStore", 0) != 0;
  location.min_elements_off_chip = value("minElementsForOffChip", location.min_elements_off_chip);
  location.min_elements_sharded =
      value("minElementsForReplicatedTensorSharding", location.min_elements_sharded);
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

tf::CompileSettings settings_of(const py::dict& d) {
  tf::CompileSettings s;
  auto number = [&](const char* key, int64_t fallback) {
    return d.contains(key) ? d[key].cast<int64_t>() : fallback;
  };
  auto flag = [&](const char* key, bool fallback) {
    return d.contains(key) ? d[key].cast<bool>() : fallback;
  };
  s.step.training = flag("training", false);
  s.step.device_iterations = number("device_iterations", 1);
  s.step.accumulation = number("gradient_accumulation", 1);
  s.compile.replicas = static_cast<int>(number("replication_factor", 1));
  s.compile.processes = static_cast<int>(number("processes", 1));
  auto groups_of = [](const py::handle& value) {
    auto [size, stride] = value.cast<std::pair<int64_t, int64_t>>();
    return ReplicaGrouping{stride, size, {}};
  };
  if (d.contains("input_groups")) s.compile.input_groups = groups_of(d["input_groups"]);
  s.broadcast_buffers = flag("broadcast_buffers", true);
  if (d.contains("replica_groupings")) {
    for (const auto& [name, value] : d["replica_groupings"].cast<py::dict>()) {
      auto grouping = value.cast<py::tuple>();
      tf::CompileSettings::Grouping& to = s.groupings[name.cast<std::string>()];
      to.groups = groups_of(grouping[0]);
      to.all_replicas = grouping[1].cast<bool>();
    }
  }
  s.output_mode = static_cast<ir::OutputMode>(number("output_mode", s.step.training ? 0 : 2));
  s.output_period = number("output_period", 1);
  if (d.contains("schedule")) s.step.schedule = ir::schedule_from_string(d["schedule"].cast<std::string>());
  if (d.contains("places")) {
    for (const auto& [id, place] : d["places"].cast<std::map<std::string, std::vector<int>>>()) {
      s.step.places[id] = {place.at(0), place.at(1), place.size() > 2 ? place[2] : 0};
    }
  }
  if (d.contains("phases")) s.step.phases = phases_of(d["phases"].cast<py::dict>());
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
  auto text = [&](const char* key) { return d.contains(key) ? d[key].cast<std::string>() : std::string(); };
  s.cache.directory = text("cache_directory");
  s.cache.version = text("version");
  if (d.contains("product_partials")) s.product_partials = text("product_partials");
  if (d.contains("convolution_partials")) s.convolution_partials = text("convolution_partials");
  s.offline_ipu_version = static_cast<int>(number("offline_ipu_version", 0));
  s.compile.any_ipu_count = flag("any_ipu_count", false);
  if (d.contains("loss_scaling")) s.step.loss_scaling = loss_scaling_of(d["loss_scaling"].cast<py::dict>());
  s.step.half_products = s.product_partials == "half";
  s.step.half_convolutions = s.convolution_partials == "half";
  s.step.stochastic_rounding = flag("stochastic_rounding", false);
  if (d.contains("anchors")) {
    using Entry = std::tuple<std::string, std::string, int, int64_t>;
    for (const auto& [short_name, long_name, mode, period] : d["anchors"].cast<std::vector<Entry>>())
      s.anchors.push_back({short_name, long_name, static_cast<ir::OutputMode>(mode), period});
  }
  if (d.contains("optimizer") && !d["optimizer"].is_none())
    s.step.optimizer = optimizer_of(d["optimizer"].cast<py::dict>());
  return s;
}

}  // namespace ipu::bindings
