#include "bindings/core/model_program_binding.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/core/core_session.h"
#include "bindings/core/executable_files.h"
#include "bindings/core/optimizer_values.h"
#include "bindings/core/records_binding.h"
#include "executable/machine_operators.h"
#include "frontends/popart/model_program.h"
#include "ir/seed_stream.h"
#include "ir/text/text.h"
#include "python/interpreter_lock.h"
#include "python/settings.h"
#include "python/without_lock.h"
#include "support/error.h"
#include "support/interruption.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

using frontends::StepOptions;
using frontends::popart::ModelProgram;
using frontends::popart::SessionSettings;
using ModelTensor = frontends::popart::Tensor;
using python::Settings;

// Their names are those that popart._impl.sessions.settings writes.
frontends::TensorLocation location_of(const py::dict& data) {
  Settings fields(data, "a location");
  frontends::TensorLocation location;
  location.off_chip = fields.get("off_chip", false);
  location.is_sharded = fields.get("sharded", false);
  location.loads_io = fields.get("loads_io", false);
  location.stores_io = fields.get("stores_io", false);
  location.min_elements_off_chip = fields.get("min_elements_off_chip", location.min_elements_off_chip);
  location.min_elements_sharded = fields.get("min_elements_sharded", location.min_elements_sharded);
  fields.refuse_others();
  return location;
}

frontends::LossScaling loss_scaling_of(const py::dict& data) {
  Settings fields(data, "automatic loss scaling");
  frontends::LossScaling scaling;
  scaling.is_automatic = true;
  scaling.tracking = static_cast<frontends::LossScaling::Tracking>(fields.get("tracking", 0));
  scaling.bin_edge = fields.get("bin_edge", scaling.bin_edge);
  scaling.upper_proportion = fields.get("upper_proportion", scaling.upper_proportion);
  scaling.period = fields.get("period", scaling.period);
  fields.refuse_others();
  return scaling;
}

StepOptions step_of(Settings& fields) {
  StepOptions step;
  step.device_iterations = fields.get<int64_t>("batches_per_step", 1);
  step.accumulation = fields.get<int64_t>("accumulation", 1);
  step.replicas = fields.get<int>("replicas", 1);
  step.replicas_of_process = fields.get<int>("replicas_of_process", step.replicas);
  step.mean_reduction = fields.get("mean_reduction", false);
  step.running_mean = fields.get("running_mean", false);
  step.schedule = ir::schedule_from_string(fields.get<std::string>("schedule", "sharded"));
  step.recomputation = ir::recomputation_mode(fields.get<int64_t>("recomputation", 0));
  step.stochastic_rounding = fields.get("stochastic_rounding", false);
  step.rounds_with_own_seed = true;
  step.half_products = fields.get("half_products", false);
  step.half_convolutions = fields.get("half_convolutions", false);
  step.io_tiles = fields.get<int64_t>("io_tiles", 0);
  step.prefetch_depth = fields.get<int64_t>("prefetch_depth", 1);
  step.phases.declared = fields.get<int64_t>("phases", 1);
  Settings locations(fields.get("locations", py::dict()), "the locations");
  const auto place = [&](const char* family, frontends::TensorLocation& location) {
    location = location_of(locations.get(family, py::dict()));
  };
  place("weights", step.weights);
  place("optimizer_state", step.optimizer_state);
  place("accumulators", step.accumulators);
  place("activations", step.activations);
  locations.refuse_others();
  if (step.activations.off_chip) step.phases.liveness = frontends::Liveness::kOffChipAfterFwd;
  step.phases.is_parallel = fields.get("phase_groups", 1) == 2;
  for (const auto& [name, location] : fields.get<std::map<std::string, py::dict>>("location_overrides", {}))
    step.locations[name] = location_of(location);
  if (fields.has("loss_scaling")) step.loss_scaling = loss_scaling_of(fields.get("loss_scaling", py::dict()));
  if (fields.has("optimizer")) step.optimizer = optimizer_spec_of(fields.get("optimizer", py::dict()));
  return step;
}

SessionSettings settings_of(const py::dict& data) {
  Settings fields(data, "the session");
  SessionSettings settings;
  settings.loss = fields.get<std::string>("loss", "");
  settings.step = step_of(fields);
  settings.tracked = fields.get<std::vector<std::string>>("tracked", {});
  settings.keeps_loss_scaling_f32 = fields.get("keeps_loss_scaling_f32", false);
  settings.uses_virtual_graphs = fields.get("virtual_graphs", false);
  settings.uses_stages = fields.get("stages", false);
  settings.uses_phases = fields.get("execution_phases", false);
  settings.finds_virtual_graphs = fields.get("automatic_virtual_graphs", false);
  settings.split_ratios = fields.get<std::vector<double>>("split_ratios", {});
  settings.ipus_of_replica = fields.get<int64_t>("ipus_of_replica", 1);
  settings.phase_groups = fields.get("phase_groups", 1);
  settings.accumulates = fields.get("accumulates", false);
  settings.is_explicit = fields.get("explicit", false);
  settings.recomputes_explicitly = fields.get("explicit_recomputation", false);
  settings.batch.parts = fields.get<int64_t>("batch_parts", 0);
  settings.batch.joins_at_ipus = fields.get("batch_joins_at_ipus", true);
  settings.batch.joins_at_phases = fields.get("batch_joins_at_phases", true);
  settings.batch.joins_at_stages = fields.get("batch_joins_at_stages", true);
  settings.step.has_forward_program = fields.get("forward_program", false);
  using Entry = std::tuple<std::string, int, int64_t, int>;
  for (const auto& [tensor, mode, period, exchange] : fields.get<std::vector<Entry>>("anchors", {}))
    settings.anchors.push_back(
        {tensor, static_cast<ir::OutputMode>(mode), period, static_cast<ir::ExchangeStrategy>(exchange)});
  for (const auto& [tensor, exchange] : fields.get<std::map<std::string, int>>("input_exchange", {}))
    settings.inputs[tensor] = static_cast<ir::ExchangeStrategy>(exchange);
  fields.refuse_others();
  return settings;
}

std::unique_ptr<ModelProgram> model_program(const py::dict& model, const py::dict& settings) {
  auto record = model_record_of(model);
  auto read = settings_of(settings);
  return python::without_gil([&] {
    Interruptible scope(&python::interrupted);
    return std::make_unique<ModelProgram>(std::move(record), std::move(read));
  });
}

const char* kind_name(ModelTensor::Kind kind) {
  switch (kind) {
    case ModelTensor::Kind::kInput:
      return "input";
    case ModelTensor::Kind::kVariable:
      return "variable";
    case ModelTensor::Kind::kConstant:
      return "constant";
    case ModelTensor::Kind::kResult:
      return "result";
    case ModelTensor::Kind::kGradient:
      return "gradient";
    case ModelTensor::Kind::kState:
      return "state";
  }
  return "";
}

py::tuple described(const ir::Type& type, ModelTensor::Kind kind) {
  return py::make_tuple(numpy_type(type.dtype), py::tuple(py::cast(type.shape)), kind_name(kind));
}

py::dict tensors(const ModelProgram& program) {
  py::dict result;
  for (const auto& [name, tensor] : program.tensors())
    result[py::str(name)] = described(tensor.type, tensor.kind);
  return result;
}

py::dict gone(const ModelProgram& program) {
  py::dict result;
  for (const auto& [name, type] : program.gone())
    result[py::str(name)] = described(type, ModelTensor::Kind::kResult);
  return result;
}

py::dict places(const ModelProgram& program) {
  py::dict result;
  for (const auto& [name, place] : program.places())
    result[py::str(name)] = py::make_tuple(place.ipu, place.stage, place.phase);
  return result;
}

py::dict scaled_states(const ModelProgram& program) {
  py::dict result;
  for (const auto& [name, state] : program.scaled_states())
    result[py::str(name)] = py::make_tuple(state.weight, state.factor);
  return result;
}

py::tuple operators(const ModelProgram& program) {
  executable::MachineOperators found;
  std::map<std::string, std::set<std::string>> gradients;
  without_gil([&] {
    auto module = program.module();
    gradients = executable::gradient_reads(*module);
    found = executable::machine_operators(
        *executable::machine_form_of(std::move(module), target::attached_system()));
  });
  py::list crossings;
  for (const executable::Crossing& c : found.crossings)
    crossings.append(py::make_tuple(c.node, c.is_backward, c.from_ipu, c.to_ipu, c.from_stage, c.to_stage,
                                    c.cycles, c.is_repeated_from));
  return py::make_tuple(found.there, found.marked, found.repeated, gradients, found.stages, crossings);
}

py::tuple batch(const ModelProgram& program) {
  py::list runs;
  for (const auto& run : program.batch().runs) runs.append(py::make_tuple(run.results, run.whole));
  return py::make_tuple(runs, program.batch().axes);
}

// `cache_folder` "": no cache; `key`: what else decides about the program. `model`: for a device that takes no IPU of the
// system.
std::unique_ptr<CoreSession> compile(const ModelProgram& program, const std::string& cache_folder,
                                     const std::string& key, bool model, bool check_floating_point) {
  const StepOptions& step = program.settings().step;
  executable::CompileOptions options;
  options.replicas = step.replicas_of_process;
  options.processes = step.replicas / step.replicas_of_process;
  options.auto_round_num_ipus = !model;
  options.any_ipu_count = model;
  executable::CacheOptions cache;
  cache.directory = cache_folder;
  cache.suffix = ".popef";
  cache.version = "popart";
  cache.front_end = key;
  cache.interrupted = &interrupted;
  runtime::RunSettings run;
  run.device.ipu_model = model;
  run.check_floating_point = check_floating_point;
  return compiled([&] { return program.module(); }, options, cache, run, &step.optimizer);
}

// The session of a program that was compiled before; the caller knows that the file is of this program.
std::unique_ptr<CoreSession> load(const ModelProgram& program, const executable::Container& file, bool model,
                                  bool check_floating_point) {
  executable::Executable found = without_gil([&] { return executable_of(file); });
  auto session = std::make_unique<CoreSession>(std::move(found), &program.settings().step.optimizer);
  runtime::RunSettings run;
  run.device.ipu_model = model;
  run.check_floating_point = check_floating_point;
  session->session().configure(run);
  return session;
}

}  // namespace

void bind_model_program(py::module_& m) {
  py::class_<ModelProgram>(m, "ModelProgram", "A model and what a PopART session says of it, as a program.")
      .def(py::init(&model_program), py::arg("model"), py::arg("settings"))
      .def("tensors", &tensors, "name -> (dtype, shape, kind)")
      .def("gone", &gone, "The same of results that the program does not compute since nobody reads them.")
      .def_property_readonly("inputs", &ModelProgram::inputs)
      .def_property_readonly("ipus", &ModelProgram::ipus)
      .def("places", &places,
           "first result of an operator -> (virtual graph, pipeline stage, execution phase)")
      .def("scaled_states", &scaled_states,
           "state -> (weight, factor): it starts at the factor times the first value of the weight, and the "
           "host sends it.")
      .def(
          "operators", &operators,
          "What became of the operators (executable/machine_operators.h): there, marked, repeated, gradient_reads, "
          "stages, crossings.")
      .def(
          "batch", &batch,
          "Runs of operators on parts of the batch, each (results, values whose slices they read), and value -> "
          "axis along which it is cut.")
      .def_property_readonly(
          "has_random",
          [](const ModelProgram& p) {
            const auto module = p.module();
            return std::any_of(
                module->streams().begin(), module->streams().end(), [](const ir::Stream& stream) {
                  return stream.name == ir::kSeedStream || stream.name == ir::kRoundingSeedStream;
                });
          },
          "Whether a run draws random numbers, those of stochastic rounding too.")
      .def("text", [](const ModelProgram& p) { return ir::print(*p.module()); })
      .def("compile", &compile, py::arg("cache_folder") = "", py::arg("key") = "", py::arg("model") = false,
           py::arg("check_floating_point") = false)
      .def("load", &load, py::arg("file"), py::arg("model") = false, py::arg("check_floating_point") = false);
}

}  // namespace ipu::bindings
