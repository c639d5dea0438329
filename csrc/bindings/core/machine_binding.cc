#include "bindings/core/machine_binding.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <array>
#include <map>

#include "support/error.h"
#include "target/known_machine.h"
#include "target/products/convolution.h"

namespace ipu::bindings {

namespace {

namespace py = pybind11;
using target::known_machine;

target::ProductType product_type(const std::string& name) {
  if (name == "fp16.16") return target::ProductType::kFp16Fp16;
  if (name == "fp16.32") return target::ProductType::kFp16Fp32;
  if (name == "fp32") return target::ProductType::kFp32;
  if (name == "fp8") return target::ProductType::kFp8;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unknown type of a product '{}': known are fp16.16, fp16.32, fp32, fp8", name));
}

py::dict shown(const target::ProductPlan& plan) {
  py::dict parts;
  for (const auto& [part, cycles] : plan.cycles.parts()) parts[part] = cycles;
  py::dict result;
  result["cycles"] = plan.cycles.total();
  result["parts"] = parts;
  result["method"] = target::word(plan.split.method);
  result["tiles"] = plan.split.tiles();
  result["temporary_bytes"] = plan.temporary_bytes;
  return result;
}

py::dict plan_product(const std::string& name, const std::array<int64_t, 4>& shape, const std::string& type,
                      double memory_proportion, double density, int64_t sparse_block, bool is_dynamic) {
  const auto [groups, rows, inputs, outputs] = shape;
  target::ProductOptions options{product_type(type), memory_proportion};
  options.density = density;
  options.sparse_block = sparse_block;
  options.is_dynamic = is_dynamic;
  return shown(target::known_plan(known_machine(name), {groups, rows, inputs, outputs}, options));
}

py::dict plan_convolution(const std::string& name, const std::map<std::string, int64_t>& sizes,
                          const std::string& type, double memory_proportion, const std::string& pass) {
  target::Convolution c;
  const std::map<std::string, int64_t*> fields{{"groups", &c.groups},
                                               {"batch", &c.batch},
                                               {"rows", &c.rows},
                                               {"columns", &c.columns},
                                               {"inputs", &c.inputs},
                                               {"outputs", &c.outputs},
                                               {"kernel_rows", &c.kernel_rows},
                                               {"kernel_columns", &c.kernel_columns},
                                               {"stride_rows", &c.stride_rows},
                                               {"stride_columns", &c.stride_columns},
                                               {"dilation_rows", &c.dilation_rows},
                                               {"dilation_columns", &c.dilation_columns},
                                               {"padding_rows", &c.padding_rows},
                                               {"padding_columns", &c.padding_columns}};
  for (const auto& [key, value] : sizes) {
    const auto field = fields.find(key);
    if (field == fields.end())
      throw Error(ErrorCode::kTypeMismatch, fmt::format("a convolution has no size '{}'", key));
    *field->second = value;
  }
  const std::map<std::string, target::ConvolutionPass> passes{
      {"forward", target::ConvolutionPass::kForward},
      {"data gradient", target::ConvolutionPass::kDataGradient},
      {"weight gradient", target::ConvolutionPass::kWeightGradient}};
  if (!passes.contains(pass))
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("unknown pass of a convolution '{}': known are forward, data gradient, weight gradient",
                    pass));
  return shown(target::convolution_plan(known_machine(name), c, passes.at(pass),
                                        {product_type(type), memory_proportion}));
}

}  // namespace

void bind_machines(py::module_& m) {
  m.def("machine_names", &target::machine_names, "The machines that are part of this package.");
  m.def(
      "describe_machine", [](const std::string& name) { return target::describe(known_machine(name)); },
      "Every number of a machine with its source.");
  m.def(
      "machine_difference",
      [](const std::string& one, const std::string& other) {
        return target::difference(known_machine(one), known_machine(other));
      },
      "The numbers that two machines do not share.");
  m.def(
      "machine_numbers",
      [](const std::string& name) {
        py::dict numbers;
        for (const target::MachineNumber& number : known_machine(name).numbers)
          numbers[py::str(number.key)] = py::make_tuple(number.value, target::word(number.tag), number.source,
                                                        number.rows, number.without, number.place);
        return numbers;
      },
      "Key to value, tag, source, rows, what changes without it, and place.");
  m.def(
      "plan_product", &plan_product, py::arg("machine"), py::arg("shape"), py::arg("type"),
      py::arg("memory_proportion"), py::arg("density") = 1.0, py::arg("sparse_block") = 0,
      py::arg("is_dynamic") = false,
      "How a product [groups, rows, inputs] x [groups, inputs, outputs] runs on one IPU: cycles, their parts, method, "
      "tiles, temporary bytes of the fullest tile. Of sparse weights with their density and the size of their blocks.");
  m.def("plan_convolution", &plan_convolution, py::arg("machine"), py::arg("sizes"), py::arg("type"),
        py::arg("memory_proportion"), py::arg("pass"),
        "The same of a convolution or of one of its gradients; channels are those of a group.");
  m.def(
      "describe_product_plan",
      [](const std::string& name, const std::array<int64_t, 4>& shape, const std::string& type,
         double memory_proportion) {
        return target::describe_plan(known_machine(name), {shape[0], shape[1], shape[2], shape[3]},
                                     {product_type(type), memory_proportion});
      },
      py::arg("machine"), py::arg("shape"), py::arg("type"), py::arg("memory_proportion"),
      "The chosen split, and why the second best of another kind lost.");
  m.def(
      "matrix_unit_cycles",
      [](const std::string& name, const std::string& type, int64_t input_blocks, int64_t output_blocks,
         int64_t rows) {
        const target::ProductCore core = target::product_core(known_machine(name), product_type(type), false);
        return target::plain_cycles(core, {1, input_blocks, output_blocks, core.units},
                                    target::plain_work(core, rows));
      },
      "Cycles of the 1x1 kernel on one tile.");
}

}  // namespace ipu::bindings
