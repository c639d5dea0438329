#include "bindings/core/unit_binding.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>

#include "bindings/core/numpy_arrays.h"
#include "bindings/core/python_values.h"
#include "bindings/core/records_binding.h"
#include "emulator/streams/queue_port.h"
#include "frontends/tensorflow/unit.h"
#include "ir/text/text.h"
#include "python/interpreter_lock.h"
#include "python/settings.h"
#include "python/without_lock.h"
#include "runtime/host/unit_registry.h"
#include "support/error.h"
#include "support/interruption.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using pybind11::literals::operator""_a;
using python::interrupted;
using python::Settings;
using python::without_gil;
using runtime::HostUnit;

HostUnit::Options unit_options(const py::dict& data, const std::string& name) {
  Settings fields(data, "a unit");
  HostUnit::Options options;
  options.name = name;
  options.device = fields.get("device", 0);
  options.compile.replicas = fields.get("replicas", 1);
  options.compile.auto_round_num_ipus = true;  // the next power of two lies between replicas
  options.cache.directory = fields.get<std::string>("cache_path", "");
  options.cache.version = fields.get<std::string>("version", "");
  options.cache.suffix = fields.get("cache_suffix", options.cache.suffix);
  fields.refuse_others();
  if (options.compile.replicas < 1)
    throw Error(ErrorCode::kOption,
                fmt::format("replicas is {}: it must be at least 1", options.compile.replicas));
  return options;
}

py::tuple described(const HostUnit::Tensor& tensor, DType host) {
  return py::make_tuple(numpy_type(host), py::tuple(py::cast(tensor.shape)));
}

template <typename Work>
auto interruptible(Work work) {
  return without_gil([&] {
    Interruptible scope(&interrupted);
    return work();
  });
}

class __attribute__((visibility("hidden"))) Unit {  // holds types of pybind11, which are hidden
 public:
  Unit(const py::dict& records, const py::dict& options)
      : record_(std::make_shared<const frontends::records::ModelRecord>(model_record_of(records))),
        unit_(std::make_shared<HostUnit>(
            unit_options(options, record_->source),
            [record = record_] { return frontends::tensorflow::build_unit(*record); })),
        token_(runtime::add_unit(unit_)) {
    if (record_->dialect != "tensorflow") wrong_data("'dialect' of a unit", "'tensorflow'");
  }
  ~Unit() { runtime::drop_unit(token_); }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  int64_t token() const { return token_; }

  std::string text() const {
    return interruptible([&] { return ir::print(*frontends::tensorflow::build_unit(*record_)); });
  }

  std::vector<std::string> written() const {
    std::vector<std::string> names;
    const HostUnit::Signature& all = signature();
    for (const int i : all.written) names.push_back(all.variables[static_cast<size_t>(i)].name);
    return names;
  }

  py::dict variables() const {
    const HostUnit::Signature& all = signature();
    py::dict result;
    for (size_t i = 0; i < all.variables.size(); ++i)
      result[py::str(all.variables[i].name)] = described(all.variables[i], host_type(i));
    return result;
  }

  py::dict streams() const {
    const HostUnit::Signature& all = signature();
    py::dict result;
    for (const auto* list : {&all.inputs, &all.outputs, &all.feeds})
      for (const HostUnit::Tensor& tensor : *list)
        result[py::str(tensor.name)] = described(tensor, tensor.dtype);
    return result;
  }

  void compile() const {
    interruptible([&] { unit_->session(); });
  }

  py::tuple run(const std::vector<py::object>& inputs,
                const std::map<std::string, py::object>& variables) const {
    const HostUnit::Signature& all = signature();
    HostUnit::Run run;
    std::vector<py::array> held;
    if (inputs.size() != all.inputs.size())
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("wrong number of inputs: the unit takes {} and is given {}.", all.inputs.size(),
                              inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      run.inputs.push_back(view(held, all.inputs[i], all.inputs[i].dtype, inputs[i]));
    for (size_t i = 0; i < all.variables.size(); ++i) {
      const auto at = variables.find(all.variables[i].name);
      if (at == variables.end())
        throw Error(
            ErrorCode::kTypeMismatch,
            fmt::format("missing variable: the unit is given no value of '{}'.", all.variables[i].name));
      const runtime::ConstHostView value = view(held, all.variables[i], host_type(i), at->second);
      run.variables.push_back({value, owner_of(held.back())});
    }
    py::list outputs;
    py::dict written;
    for (const HostUnit::Tensor& tensor : all.outputs) {
      py::array array(numpy_type(tensor.dtype), tensor.shape);
      run.outputs.push_back(place(tensor, tensor.dtype, array));
      outputs.append(array);
    }
    for (const int number : all.written) {
      const auto i = static_cast<size_t>(number);
      py::array array(numpy_type(host_type(i)), all.variables[i].shape);
      run.written.push_back({place(all.variables[i], host_type(i), array), owner_of(array)});
      written[py::str(all.variables[i].name)] = array;
    }
    run.stop = &interrupted;
    without_gil([&] { unit_->run(run); });
    return py::make_tuple(outputs, written);
  }

  py::dict counts() const {
    const HostUnit::Counts counts = unit_->counts();
    return py::dict("compilations"_a = counts.compilations, "runs"_a = counts.runs,
                    "uploaded_bytes"_a = counts.uploaded_bytes,
                    "downloaded_bytes"_a = counts.downloaded_bytes);
  }

 private:
  const HostUnit::Signature& signature() const {
    return *interruptible([&] { return &unit_->signature(); });
  }

  // As the records say; the device has narrow types. The table of a unit has the initialisers in their order.
  DType host_type(size_t variable) const { return record_->graph.initialisers[variable].type().dtype; }

  static runtime::ConstHostView view(std::vector<py::array>& held, const HostUnit::Tensor& tensor,
                                     DType dtype, const py::object& value) {
    held.push_back(plain_array(tensor.name, value, dtype, tensor.shape));
    const py::array& array = held.back();
    return {dtype,
            tensor.shape,
            {static_cast<const std::byte*>(array.data()), static_cast<size_t>(array.nbytes())}};
  }

  static runtime::HostView place(const HostUnit::Tensor& tensor, DType dtype, py::array& array) {
    return {dtype,
            tensor.shape,
            {static_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.nbytes())}};
  }

  // Let go with the interpreter's lock.
  static std::shared_ptr<const void> owner_of(const py::array& array) {
    return {new py::array(array), [](const py::array* held) {
              python::InsideInterpreter inside;
              delete held;
            }};
  }

  std::shared_ptr<const frontends::records::ModelRecord> record_;
  std::shared_ptr<HostUnit> unit_;
  int64_t token_;
};

// The host's end of a feed, for programs without TensorFlow: elements of one or several arrays.
class __attribute__((visibility("hidden"))) FeedQueue {
 public:
  FeedQueue(std::string name, const std::vector<std::pair<py::object, Shape>>& elements, int64_t capacity)
      : name_(std::move(name)) {
    runtime::FeedPorts ports;
    for (const auto& [type, shape] : elements) {
      types_.push_back({dtype_of(py::dtype::from_args(type), "a feed"), shape});
      queues_.push_back(std::make_shared<emulator::QueuePort>(capacity, 1));
      ports.push_back(queues_.back());
    }
    runtime::bind_feed(name_, std::move(ports));
  }
  ~FeedQueue() { close(); }
  FeedQueue(const FeedQueue&) = delete;
  FeedQueue& operator=(const FeedQueue&) = delete;

  void push(const std::vector<py::object>& arrays) {
    if (arrays.size() != types_.size())
      wrong_data("an element of a feed", "as many arrays as it was made for");
    std::vector<std::vector<std::byte>> element;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const py::array array =
          plain_array(fmt::format("{}:{}", name_, i), arrays[i], types_[i].dtype, types_[i].shape);
      const auto* data = static_cast<const std::byte*>(array.data());
      element.emplace_back(data, data + array.nbytes());
    }
    without_gil([&] {
      for (size_t i = 0; i < queues_.size(); ++i) queues_[i]->push(0, std::move(element[i]));
    });
  }

  py::object pop() {
    py::list arrays;
    for (size_t i = 0; i < queues_.size(); ++i) {
      const auto element = without_gil([&] { return queues_[i]->pop(0); });
      if (!element) return py::none();
      py::array array(numpy_type(types_[i].dtype), types_[i].shape);
      std::memcpy(array.mutable_data(), element->data(), element->size());
      arrays.append(array);
    }
    return arrays;
  }

  void end() {
    for (const auto& queue : queues_) queue->close();
  }

  void close() {
    runtime::bind_feed(name_, {});
    end();
  }

 private:
  std::string name_;
  std::vector<ir::Type> types_;
  std::vector<std::shared_ptr<emulator::QueuePort>> queues_;
};

runtime::UnitDeviceSettings device_settings(const py::dict& data) {
  Settings fields(data, "a device");
  runtime::UnitDeviceSettings settings;
  settings.ipus = fields.get("ipus", 1);
  settings.request.ipu_id = fields.get("ipu_id", -1);
  settings.request.ipu_model = fields.get("ipu_model", false);
  settings.request.small_model = fields.get("small_model", false);
  settings.request.wait_for_ipu = fields.get("wait_for_ipu", false);
  settings.request.wait_seconds = fields.get("wait_seconds", -1.0);
  settings.compiles_only = fields.get("compiles_only", false);
  settings.check_floating_point = fields.get("check_floating_point", false);
  settings.stochastic_rounding = fields.get("stochastic_rounding", false);
  fields.refuse_others();
  return settings;
}

void configure(const std::vector<py::dict>& devices) {
  std::vector<runtime::UnitDeviceSettings> settings;
  for (const py::dict& device : devices) settings.push_back(device_settings(device));
  without_gil([&] { runtime::configure_unit_devices(std::move(settings)); });
}

std::vector<py::dict> devices() {
  std::vector<py::dict> list;
  for (const runtime::UnitDeviceSettings& one : runtime::unit_devices())
    list.push_back(
        py::dict("ipus"_a = one.ipus, "ipu_id"_a = one.request.ipu_id, "ipu_model"_a = one.request.ipu_model,
                 "small_model"_a = one.request.small_model, "wait_for_ipu"_a = one.request.wait_for_ipu,
                 "wait_seconds"_a = one.request.wait_seconds, "compiles_only"_a = one.compiles_only,
                 "check_floating_point"_a = one.check_floating_point,
                 "stochastic_rounding"_a = one.stochastic_rounding));
  return list;
}

}  // namespace

void bind_units(py::module_& m) {
  py::class_<Unit>(m, "Unit",
                   "A unit of TensorFlow as node records; nothing is compiled before it is needed.")
      .def(py::init<const py::dict&, const py::dict&>(), py::arg("records"), py::arg("options") = py::dict())
      .def_property_readonly("token", &Unit::token, "The number by which native code finds the unit.")
      .def_property_readonly("written", &Unit::written,
                             "Names of the variables that a run assigns, in their order.")
      .def_property_readonly("variables", &Unit::variables, "name -> (dtype, shape), in the order of a run.")
      .def("compile", &Unit::compile, "Compiles for the device that is configured now.")
      .def("text", &Unit::text, "The IR before any pass.")
      .def("streams", &Unit::streams, "name -> (dtype, shape) of one element: inputs, outputs, feeds.")
      .def(
          "counts", &Unit::counts,
          "{\"compilations\", \"runs\", and of the last run the bytes of variables that went to the device and came back, "
          "\"uploaded_bytes\" and \"downloaded_bytes\"}.")
      .def(
          "run", &Unit::run, py::arg("inputs"), py::arg("variables") = std::map<std::string, py::object>(),
          "(outputs, values of the variables that were assigned by name). An array that is given again for a variable, or "
          "that a run gave back for it, must not have changed: it is not sent again.");
  py::class_<FeedQueue>(
      m, "FeedQueue",
      "The host's end of a queue that units draw from or give to, with elements of one or several arrays.")
      .def(py::init<std::string, const std::vector<std::pair<py::object, Shape>>&, int64_t>(),
           py::arg("name"), py::arg("elements"), py::arg("capacity") = 1024)
      .def("push", &FeedQueue::push, py::arg("arrays"), "One element more; waits for room.")
      .def("pop", &FeedQueue::pop,
           "The next element, for which it waits; None: the queue is closed and empty.")
      .def("end", &FeedQueue::end, "No elements any more: a run that wants another one ends with an error.")
      .def("close", &FeedQueue::close, "The same, and units do not find the queue any more.");
  m.def("configure_devices", &configure, py::arg("devices"));
  m.def("attach_devices", [] { without_gil([] { runtime::attach_unit_devices(&interrupted); }); });
  m.def("devices", &devices, "The devices of units as configure() takes them, by ordinal.");
  m.def(
      "seed_devices", [](uint64_t seed, int ordinal) { runtime::seed_unit_devices(seed, ordinal); },
      py::arg("seed"), py::arg("device") = -1,
      "What random numbers of the runs to come depend on, of units on one device or on all.");
}

}  // namespace ipu::bindings
