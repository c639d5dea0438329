// The executor's device side (run settings, anchors, counters), faults, and the check of device choices.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "bindings/on_session.h"
#include "emulator/faults/faults.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/executor/popart_options.h"
#include "python/without_lock.h"
#include "runtime/device_pool.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using python::unlocked;
using python::without_gil;

tf::RunSettings run_settings(const py::dict& d) {
  tf::RunSettings s;
  auto flag = [&](const char* key) { return d.contains(key) && d[key].cast<bool>(); };
  s.session.device.ipu_model = flag("ipu_model");
  s.session.device.small_model = flag("small_model");
  s.session.device.wait_for_ipu = flag("wait_for_ipu");
  s.session.check_floating_point = flag("check_floating_point");
  if (d.contains("ipu_id")) s.session.device.ipu_id = d["ipu_id"].cast<int>();
  if (d.contains("synthetic_data")) s.synthetic_data = d["synthetic_data"].cast<int>();
  return s;
}

py::object anchored(tf::Executor& executor, const std::string& name) {
  at::Tensor value = without_gil([&] { return executor.anchored(name); });
  return value.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(value))
                         : py::object(py::none());
}

void recover(const std::string& action) {
  const target::System& system = target::attached_system();
  emulator::recover(action, system.num_ipus - runtime::DevicePool::instance().free_count());
}

template <typename F>
void add_method(py::object& kind, const char* name, F function, const char* doc) {
  kind.attr(name) = py::cpp_function(function, py::name(name), py::is_method(kind), py::doc(doc));
}

}  // namespace

void define_device(py::module_& m) {
  py::object executor = m.attr("Executor");
  add_method(
      executor, "configure", [](tf::Executor& e, const py::dict& d) { e.configure(run_settings(d)); },
      "What may be said after compiling; takes effect at the next attach.");
  add_method(
      executor, "tensor_names", [](const tf::Executor& e) { return e.tensor_names(); },
      "Names of everything that can be anchored.");
  add_method(
      executor, "back_end_ir",
      [](const tf::Executor& e) { return without_gil([&] { return e.back_end_ir(); }); },
      "The program as the back end lists it (JSON).");
  add_method(
      executor, "debug_info",
      [](const tf::Executor& e) {
        const std::vector<uint8_t> bytes = without_gil([&] { return e.debug_info(); });
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      "Where the listed operations come from (CBOR).");
  add_method(
      executor, "set_description",
      [](tf::Executor& e, std::string ir, std::vector<std::string> names) {
        e.set_description(std::move(ir), std::move(names));
      },
      "back_end_ir() and tensor_names() of a program from a file.");
  add_method(
      executor, "add_tensor_names",
      [](tf::Executor& e, const std::vector<std::string>& names) { e.add_tensor_names(names); },
      "Names that the optimizer adds.");
  m.def(
      "_getPopartIR", [](const tf::Executor& e) { return without_gil([&] { return e.back_end_ir(); }); },
      py::arg("executable"), "The program as the back end lists it (JSON).");
  m.def(
      "_getTensorNames", [](const tf::Executor& e) { return e.tensor_names(); }, py::arg("executable"),
      "Names of the tensors of a program.");
  add_method(
      executor, "has_anchor",
      [](const tf::Executor& e, const std::string& name) { return e.session().has_anchor(name); },
      "Was this short name anchored?");
  add_method(executor, "anchored", &anchored, "Value of an anchor in the last call, or None.");
  add_method(executor, "cycles", on_session(&runtime::Session::cycles), "Device cycles of the last call.");
  add_method(executor, "transfer_times", unlocked(&tf::Executor::transfer_times),
             "(begin, end) in seconds of each element of each tensor moved in the last call.");
  add_method(executor, "is_lost", on_session(&runtime::Session::is_lost),
             "Did a device fault take the device away?");
  m.def("check_device_choice", &tf::check_device_choice, py::arg("offline"), py::arg("ipu_model"),
        py::arg("fixed_device"), py::arg("counts_cycles"), "Error for choices that exclude each other.");
  m.def(
      "add_faults",
      [](const std::string& rules) { return emulator::add_faults(emulator::parse_faults(rules)); },
      py::arg("rules"), "Adds faults that will happen; gives the number for remove_faults.");
  m.def("remove_faults", &emulator::remove_faults, py::arg("number"),
        "Takes faults away; the system is what it was before them.");
  m.def("recover", &recover, py::arg("action"), "Says that a reset was made.");
  m.def(
      "ipuModelVersion", [](bool small) { return target::model_system(small).ipu_version; },
      py::arg("small") = false);
}

}  // namespace ipu::bindings
