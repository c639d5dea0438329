#include "bindings/core/machine_binding.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "support/error.h"
#include "target/machine.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using target::Machine;

const Machine& machine(const std::string& name_or_path) {
  if (const Machine* found = target::find_machine(name_or_path); found != nullptr) return *found;
  const std::vector<std::string> names = target::machine_names();
  throw Error(ErrorCode::kEnvironment,
              fmt::format("unknown machine '{}'{}: known are {}, and paths of machine files", name_or_path,
                          target::suggestion(name_or_path, names), fmt::join(names, ", ")));
}

}  // namespace

void bind_machines(py::module_& m) {
  m.def("machine_names", &target::machine_names, "The machines that are part of this package.");
  m.def(
      "describe_machine", [](const std::string& name) { return target::describe(machine(name)); },
      "Every number of a machine with its source.");
  m.def(
      "machine_difference",
      [](const std::string& one, const std::string& other) {
        return target::difference(machine(one), machine(other));
      },
      "The numbers that two machines do not share.");
  m.def(
      "machine_numbers",
      [](const std::string& name) {
        py::dict numbers;
        for (const target::MachineNumber& number : machine(name).numbers)
          numbers[py::str(number.key)] = py::make_tuple(number.value, target::word(number.tag), number.source,
                                                        number.rows, number.without, number.place);
        return numbers;
      },
      "Key to value, tag, source, rows, what changes without it, and place.");
}

}  // namespace ipu::bindings
