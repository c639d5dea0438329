#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>

#include <functional>
#include <optional>

#include "bindings/bindings.h"
#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/operators/op_info.h"
#include "frontends/torch/capture/operators/slice_bounds.h"
#include "frontends/torch/host_memory.h"
#include "ir/text/text.h"
#include "ops/custom/custom_op.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using Tensors = std::vector<at::Tensor>;
using OptionalTensors = std::vector<std::optional<at::Tensor>>;
using PythonBackward = std::function<OptionalTensors(int64_t number, const Tensors& of_results)>;

Tensors defined_or_not(const OptionalTensors& tensors) {
  Tensors all;
  for (const std::optional<at::Tensor>& tensor : tensors) all.push_back(tensor.value_or(at::Tensor()));
  return all;
}

py::object dtype_object(at::ScalarType type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
}

const ir::Module& module_of(const tf::Captured& c) {
  if (c.module == nullptr)
    throw Error(ErrorCode::kCapture, "compiled already: the captured graph went into its executor");
  return *c.module;
}

template <typename T>
py::object or_none(T index) {
  return index < 0 ? py::object(py::none()) : py::object(py::int_(index));
}

// {"__outline": {"layer": "embedding"}} as "__outline.layer" = "embedding"; scalars and lists by their name.
Attributes attributes_of(const py::dict& values) {
  Attributes attributes;
  for (const auto& [key, value] : values) {
    const auto name = key.cast<std::string>();
    if (py::isinstance<py::dict>(value)) {
      for (const auto& [inner, text] : value.cast<py::dict>())
        attributes.set(name + "." + inner.cast<std::string>(), text.cast<std::string>());
    } else if (py::isinstance<py::str>(value)) {
      attributes.set(name, value.cast<std::string>());
    } else if (py::isinstance<py::int_>(value)) {
      attributes.set(name, value.cast<int64_t>());
    } else if (py::isinstance<py::float_>(value)) {
      attributes.set(name, value.cast<double>());
    } else {
      auto texts = value.cast<std::vector<std::string>>();
      attributes.set(name, texts);
    }
  }
  return attributes;
}

}  // namespace

void define_capture(py::module_& m) {
  py::class_<tf::InputSpec>(m, "CapturedInput")
      .def_readonly("name", &tf::InputSpec::name)
      .def_property_readonly("shape", [](const tf::InputSpec& s) { return py::tuple(py::cast(s.shape)); })
      .def_property_readonly("dtype", [](const tf::InputSpec& s) { return dtype_object(s.dtype); });
  py::class_<tf::StateSpec>(m, "CapturedState")
      .def_readonly("name", &tf::StateSpec::name)
      .def_property_readonly("shape", [](const tf::StateSpec& s) { return py::tuple(py::cast(s.shape)); })
      .def_property_readonly("dtype", [](const tf::StateSpec& s) { return dtype_object(s.dtype); })
      .def_readonly("is_parameter", &tf::StateSpec::is_parameter)
      .def_readonly("trainable", &tf::StateSpec::trainable)
      .def_readonly("used", &tf::StateSpec::used)
      .def_readonly("written", &tf::StateSpec::written);
  py::class_<tf::OutputSpec>(m, "CapturedOutput")
      .def_property_readonly("shape", [](const tf::OutputSpec& s) { return py::tuple(py::cast(s.shape)); })
      .def_property_readonly("dtype", [](const tf::OutputSpec& s) { return dtype_object(s.dtype); })
      .def_property_readonly("index", [](const tf::OutputSpec& s) { return or_none(s.index); })
      .def_property_readonly("passthrough", [](const tf::OutputSpec& s) { return or_none(s.passthrough); })
      .def_property_readonly("constant", [](const tf::OutputSpec& s) {
        return s.index < 0 ? py::cast(s.constant) : py::object(py::none());
      });

  py::class_<tf::Captured, std::unique_ptr<tf::Captured>>(m, "Captured")
      .def(
          "ir_text",
          [](const tf::Captured& c, bool locations) {
            ir::PrintOptions options;
            options.locations = options.origins = locations;
            return ir::print(module_of(c), options);
          },
          py::arg("locations") = true, "The captured graph as text; until it is compiled.")
      .def(
          "op_kinds",
          [](const tf::Captured& c) {
            module_of(c);
            std::vector<std::string> kinds;
            for (const auto& op : c.graph->ops()) kinds.push_back(op->kind());
            return kinds;
          },
          "Kinds of the captured operations, in order.")
      .def_property_readonly(
          "overlaps",
          [](const tf::Captured& c) {
            module_of(c);
            return std::any_of(c.graph->ops().begin(), c.graph->ops().end(), [](const auto& op) {
              return op->is("overlap_mark") && op->attributes.text("mode") != "no_overlap";
            });
          },
          "An input or output is marked as overlapped.")
      .def_readonly("inputs", &tf::Captured::inputs)
      .def_readonly("states", &tf::Captured::states)
      .def_readonly("outputs", &tf::Captured::outputs)
      .def(
          "blocks",
          [](const tf::Captured& c) {
            std::vector<std::tuple<std::string, std::string, py::object>> blocks;
            for (const tf::BlockSpec& b : c.blocks) blocks.emplace_back(b.key, b.id, or_none(b.ipu));
            return blocks;
          },
          "(key, block id, IPU or None) in order of first appearance. An id on several IPUs has an entry for each.")
      .def_property_readonly("mutated_inputs", [](const tf::Captured& c) {
        std::vector<int> indices;
        for (const tf::MutatedInput& i : c.mutated_inputs) indices.push_back(i.input);
        return indices;
      });

  m.def(
      "objection_to", [](const at::Tensor& t) { return tf::objection_to(t); }, py::arg("tensor"),
      "What keeps the elements of a tensor from being read, and a cure; \"\" when nothing does.");
  m.def(
      "address_of", [](const at::Tensor& t) { return reinterpret_cast<intptr_t>(tf::host_data(t)); },
      py::arg("tensor"), "Where the elements of a tensor of the host begin.");
  m.def("user_line", &tf::current_user_line, "The line of the program that is running: \"model.py:41\".");
  m.def("imported_operators", &tf::imported_operators,
        "Overloads with an importer, without the domain aten: [\"add.Tensor\", ...].");
  m.def("find_custom_op", &ops::find_custom_op, py::arg("domain"), py::arg("name"), py::arg("version"),
        "The operator of a library that is loaded into this process.");
  m.def(
      "place_of",
      [](const std::vector<std::tuple<std::string, int64_t, std::string>>& frames) {
        std::vector<tf::PythonFrame> given;
        for (const auto& [file, line, function] : frames) given.push_back({file, line, function});
        const tf::UserPlace place = tf::place_of(given);
        return std::pair(place.line, place.stack);
      },
      py::arg("frames"),
      "(the user's line or \"\", lines of a message with the stack below it) of frames (file, line, function), "
      "innermost first.");
  m.def("set_location_excludes", &tf::set_location_excludes, py::arg("fragments"),
        "Path fragments of files that are not the user's.");
  py::class_<tf::Capture>(m, "Capture")
      .def(py::init<bool>(), py::arg("training"))
      .def("begin", &tf::Capture::begin)
      .def("add_input", &tf::Capture::add_input, py::arg("name"), py::arg("example"), py::arg("whole"))
      .def(
          "add_state",
          [](tf::Capture& c, const std::string& name, const at::Tensor& tensor, bool is_parameter,
             bool trainable, bool updatable, bool is_statistic) {
            return c.memory().add_state(name, tensor, is_parameter, trainable, updatable, is_statistic);
          },
          py::arg("name"), py::arg("tensor"), py::arg("is_parameter"), py::arg("trainable"),
          py::arg("updatable") = false, py::arg("is_statistic") = false)
      .def(
          "set_block",
          [](tf::Capture& c, const std::string& id, int ipu) { c.annotations().set_block(id, ipu); },
          py::arg("block_id"), py::arg("ipu_id") = -1)
      .def("clear_block", [](tf::Capture& c) { c.annotations().clear_block(); })
      .def(
          "push_module", [](tf::Capture& c, const std::string& path) { c.annotations().push_module(path); },
          py::arg("name"))
      .def("pop_module", [](tf::Capture& c) { c.annotations().pop_module(); })
      .def("push_attributes",
           [](tf::Capture& c, const py::dict& v) { c.annotations().push_attributes(attributes_of(v)); })
      .def("pop_attributes", [](tf::Capture& c) { c.annotations().pop_attributes(); })
      .def(
          "set_available_memory",
          [](tf::Capture& c, const at::Tensor& t, double proportion) {
            return tf::Annotations::set_available_memory(c.memory().read(t), proportion);
          },
          py::arg("tensor"), py::arg("proportion"))
      .def("begin_multi_conv", [](tf::Capture& c) { c.annotations().begin_multi_conv(); })
      .def("end_multi_conv",
           [](tf::Capture& c, const py::dict& v) { return c.annotations().end_multi_conv(attributes_of(v)); })
      .def(
          "gradients",
          [](tf::Capture& c, const Tensors& outputs, const Tensors& upstream, const Tensors& inputs,
             bool create_graph, bool keep_graph, const PythonBackward& backward) {
            return c.gradients().of(outputs, upstream, inputs, create_graph, keep_graph,
                                    [&](int64_t number, const Tensors& of_results) {
                                      return defined_or_not(backward(number, of_results));
                                    });
          },
          py::arg("outputs"), py::arg("upstream"), py::arg("inputs"), py::arg("create_graph"),
          py::arg("keep_graph"), py::arg("backward"),
          "`backward(number, gradients of results)` gives the gradients of the arguments of a custom call.")
      .def("leaves", [](tf::Capture& c) { return c.memory().leaves(); })
      .def("holds", [](tf::Capture& c, const at::Tensor& t) { return c.memory().is_graph_value(t); })
      .def("knows", [](tf::Capture& c, const at::Tensor& t) { return c.memory().known_value(t).defined(); })
      .def("version", [](tf::Capture& c, const at::Tensor& t) { return c.memory().version_of(t); })
      .def(
          "stands_for",
          [](tf::Capture& c, int state, const at::Tensor& t) {
            return c.memory().states()[state].counterpart.is_same(t);
          },
          py::arg("state"), py::arg("tensor"), "Whether a tensor is what add_state() gave, by number.")
      .def("note_slice", [](tf::Capture& c, const at::Tensor& t) { c.memory().note_slice(t); })
      .def("settle_slice", [](tf::Capture& c, const at::Tensor& t) { c.memory().settle_slice(t); })
      .def(
          "distance",
          [](tf::Capture& c, const at::Tensor& from, const at::Tensor& to) {
            return tf::constant_distance(*c.memory().read(from), *c.memory().read(to));
          },
          py::arg("start"), py::arg("stop"))
      .def(
          "add_custom_call",
          [](tf::Capture& c, const std::string& function, const Tensors& results, const Tensors& arguments) {
            return c.gradients().passes().add(function, results, arguments);
          },
          py::arg("function"), py::arg("results"), py::arg("arguments"))
      .def("passes_for_training", &tf::Capture::passes_for_training)
      .def(
          "begin_pass", [](tf::Capture& c, int64_t number) { return c.gradients().passes().begin(number); },
          py::arg("number"))
      .def(
          "end_pass",
          [](tf::Capture& c, const OptionalTensors& gradients, const Tensors& parameters,
             const Tensors& of_parameters) {
            c.gradients().passes().end(defined_or_not(gradients), parameters, of_parameters);
          },
          py::arg("gradients"), py::arg("parameters"), py::arg("of_parameters"))
      .def("random_operations", &tf::Capture::random_operations, "How many were captured so far.")
      .def("return_to_random_operation", &tf::Capture::return_to_random_operation, py::arg("number"),
           "The next one draws the numbers of the one of this number.")
      .def(
          "refuse_pass",
          [](tf::Capture& c, int64_t number, const std::string& reason) {
            c.gradients().passes().refuse(number, reason);
          },
          py::arg("number"), py::arg("reason"))
      .def("abandon_pass", [](tf::Capture& c) { c.gradients().passes().abandon(); })
      .def(
          "open_body",
          [](tf::Capture& c, const std::string& function, const Tensors& arguments) {
            return c.bodies().open(function, arguments);
          },
          py::arg("function"), py::arg("arguments"))
      .def(
          "close_body", [](tf::Capture& c, const Tensors& results) { c.bodies().close(results); },
          py::arg("results"))
      .def("abandon_body", [](tf::Capture& c) { c.bodies().abandon(); })
      .def(
          "loop", [](tf::Capture& c, int64_t trip) { return c.bodies().loop(trip); }, py::arg("trip"))
      .def(
          "branch", [](tf::Capture& c, const at::Tensor& condition) { return c.bodies().branch(condition); },
          py::arg("condition"))
      .def("write", [](tf::Capture& c, const at::Tensor& to,
                       const at::Tensor& from) { c.memory().write(to, c.memory().read(from)); })
      .def(
          "finish",
          [](tf::Capture& self, const Tensors& outputs, const Tensors& parameters, const Tensors& gradients) {
            torch::PyWarningHandler to_python;  // a constant that does not fit
            try {
              return self.finish(outputs, parameters, gradients);
            } catch (...) {
              to_python.set_in_exception();
              throw;
            }
          },
          py::arg("outputs"), py::arg("parameters") = Tensors(), py::arg("gradients") = Tensors())
      .def(
          "outside",
          [](tf::Capture& c, const py::object& f) {
            const tf::Capture::Outside outside(c);
            return f();
          },
          py::arg("f"), "f() as outside of the capture, in the thread that captures.")
      .def("abort", &tf::Capture::abort)
      .def_static("settle", &tf::Capture::settle,
                  "The captured model has its own parameters and buffers again.");
}

}  // namespace ipu::bindings
