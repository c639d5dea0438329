#include "bindings/core/machine_binding.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <array>

#include "support/error.h"
#include "target/machine.h"
#include "target/products/product_plan.h"

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

target::ProductType product_type(const std::string& name) {
  if (name == "fp16.16") return target::ProductType::kFp16Fp16;
  if (name == "fp16.32") return target::ProductType::kFp16Fp32;
  if (name == "fp32") return target::ProductType::kFp32;
  if (name == "fp8") return target::ProductType::kFp8;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unknown type of a product '{}': known are fp16.16, fp16.32, fp32, fp8", name));
}

py::dict plan_product(const std::string& name, const std::array<int64_t, 4>& shape, const std::string& type,
                      double memory_proportion) {
  const auto [groups, rows, inputs, outputs] = shape;
  const target::ProductPlan plan = target::plan_product(machine(name), {groups, rows, inputs, outputs},
                                                        {product_type(type), memory_proportion});
  py::dict parts;
  for (const auto& [part, cycles] : plan.cycles.parts()) parts[part] = cycles;
  py::dict result;
  result["cycles"] = plan.cycles.total();
  result["parts"] = parts;
  result["tiles"] = plan.split.tiles();
  result["temporary_bytes"] = plan.temporary_bytes;
  return result;
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
  m.def(
      "plan_product", &plan_product, py::arg("machine"), py::arg("shape"), py::arg("type"),
      py::arg("memory_proportion"),
      "How a product [groups, rows, inputs] x [groups, inputs, outputs] runs on one IPU: cycles, their parts, tiles, "
      "temporary bytes of the fullest tile.");
  m.def(
      "describe_product_plan",
      [](const std::string& name, const std::array<int64_t, 4>& shape, const std::string& type,
         double memory_proportion) {
        return target::describe_plan(machine(name), {shape[0], shape[1], shape[2], shape[3]},
                                     {product_type(type), memory_proportion});
      },
      py::arg("machine"), py::arg("shape"), py::arg("type"), py::arg("memory_proportion"),
      "The chosen split, and why the second best of another kind lost.");
  m.def(
      "matrix_unit_cycles",
      [](const std::string& name, const std::string& type, int64_t input_blocks, int64_t output_blocks,
         int64_t rows) {
        const target::ProductCore core = target::product_core(machine(name), product_type(type), false);
        return target::matrix_unit_cycles(core, 1, input_blocks, output_blocks, core.units, rows);
      },
      "Cycles of the 1x1 kernel on one tile.");
}

}  // namespace ipu::bindings
