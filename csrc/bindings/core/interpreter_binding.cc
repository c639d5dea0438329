#include "bindings/core/interpreter_binding.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "ir/text/text.h"
#include "ops/interpreter/interpreter.h"
#include "passes/pass.h"
#include "support/error.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using Elements = std::map<std::string, std::vector<py::array_t<double>>>;

std::unique_ptr<ir::Module> parsed(const std::string& text, const std::string& source,
                                   const std::vector<std::string>& steps) {
  std::unique_ptr<ir::Module> module = ir::parse(text, source);
  passes::PassContext context;
  context.system = &target::attached_system();
  context.host = passes::HostLimits::from_environment();
  passes::run_pipeline(*module, steps, context, passes::Verify::kEachPass);
  return module;
}

py::array_t<double> array_of(const ops::ReferenceTensor& tensor) {
  py::array_t<double> array(tensor.type.shape);
  std::copy(tensor.values.begin(), tensor.values.end(), array.mutable_data());
  return array;
}

py::tuple interpret(const std::string& text, const Elements& inputs, const std::string& source,
                    const std::vector<std::string>& steps) {
  const std::unique_ptr<ir::Module> module = parsed(text, source, steps);
  ops::Interpreter interpreter(*module);
  for (const auto& [name, elements] : inputs) {
    const ir::Stream* stream = module->find_stream(name);
    if (stream == nullptr || stream->direction != ir::StreamDirection::kHostToDevice)
      throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no input {}", name));
    for (const py::array_t<double>& given : elements) {
      py::array_t<double, py::array::c_style | py::array::forcecast> element(given);
      const Shape shape(element.shape(), element.shape() + element.ndim());
      if (shape != stream->type.shape)
        throw Error(ErrorCode::kTypeMismatch, fmt::format("Shape mismatch: input {} takes {}, got {}", name,
                                                          to_string(stream->type.shape), to_string(shape)));
      interpreter.streams[name].push_back(
          {stream->type, std::vector<double>(element.data(), element.data() + element.size())});
    }
  }
  interpreter.run_entry_point("main");
  py::dict outputs, variables;
  for (const ir::Stream& stream : module->streams()) {
    if (stream.direction == ir::StreamDirection::kHostToDevice) continue;
    py::list list;
    for (const ops::ReferenceTensor& element : interpreter.streams[stream.name])
      list.append(array_of(element));
    outputs[py::str(stream.name)] = list;
  }
  for (const ir::Variable& variable : module->variables())
    variables[py::str(variable.name)] = array_of(interpreter.download(variable.name));
  return py::make_tuple(outputs, variables);
}

}  // namespace

void bind_interpreter(py::module_& m) {
  m.def(
      "interpret", &interpret, py::arg("text"), py::arg("inputs"), py::arg("source"), py::arg("passes"),
      "Runs the entry point main of the module, after `passes`, in the interpreter; inputs are lists of elements "
      "by stream. Gives the elements of all outputs and the variables, as float64.");
  m.def(
      "run_passes",
      [](const std::string& text, const std::string& source, const std::vector<std::string>& steps) {
        return ir::print(*parsed(text, source, steps));
      },
      py::arg("text"), py::arg("source"), py::arg("passes"), "The text of the module after `passes`.");
}

}  // namespace ipu::bindings
