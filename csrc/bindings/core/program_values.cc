#include "bindings/core/program_values.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::bindings {

px::TensorInfo info_of(int dtype, Shape shape, Shape meta_shape) {
  if (dtype < 0 || dtype > static_cast<int>(px::DataType::kUndefined))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("unknown type: number {}", dtype));
  return {static_cast<px::DataType>(dtype), std::move(shape), std::move(meta_shape)};
}

void unknown_member(const char* what, int number) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("unknown {}: number {}", what, number));
}

py::tuple to_tuple(const px::TensorInfo& info) {
  return py::make_tuple(static_cast<int>(info.dtype), py::tuple(py::cast(info.shape)),
                        py::tuple(py::cast(info.meta_shape)));
}

Attributes attributes_of(const py::dict& values) {
  Attributes attributes;
  for (const auto& [key, value] : values) {
    const auto name = key.cast<std::string>();
    attributes.set(name, attribute_of(value, "attribute '" + name + "'"));
  }
  return attributes;
}

py::dict to_dict(const Attributes& attributes) {
  py::dict result;
  for (const auto& [name, value] : attributes) result[py::str(name)] = to_python(value);
  return result;
}

std::vector<px::Graph*> graphs_of(px::Program& program, const std::vector<int>& graph_numbers) {
  std::vector<px::Graph*> graphs;
  for (const int number : graph_numbers) graphs.push_back(&program.graph_of_number(number));
  return graphs;
}

}  // namespace ipu::bindings
