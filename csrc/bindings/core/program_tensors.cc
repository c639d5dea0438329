// Tensors of a program, by number.
#include <fmt/core.h>
#include <pybind11/numpy.h>

#include <optional>

#include "bindings/core/numpy_arrays.h"
#include "bindings/core/program_values.h"
#include "frontends/popxl/placement.h"
#include "ir/builder.h"
#include "support/error.h"

namespace ipu::bindings {

using px::Op;
using px::Program;
using px::Tensor;

namespace {

px::TensorType tensor_type_of(int number) {
  return member_of<px::TensorType>(number, px::TensorType::kVariable, "tensor type");
}

px::VariableSettings variable_settings(int64_t stride, int64_t size, std::vector<int64_t> assignment,
                                       bool all_replicas, int64_t shard_over, int remote_buffer,
                                       int64_t remote_entry) {
  return {{stride, size, std::move(assignment)}, all_replicas, shard_over, remote_buffer, remote_entry};
}

}  // namespace

void bind_tensors(ProgramClass& c) {
  c.def(
       "create_tensor",
       [](Program& p, int g, const std::string& id, int type, int dtype, Shape shape, Shape meta) {
         return p.graph_of_number(g)
             .create_tensor(id, info_of(dtype, std::move(shape), std::move(meta)), tensor_type_of(type))
             .number();
       },
       py::arg("graph"), py::arg("id"), py::arg("type"), py::arg("dtype"), py::arg("shape"),
       py::arg("meta_shape") = Shape{})
      .def(
          "add_variable",
          [](Program& p, int g, const std::string& id, int dtype, Shape shape, Shape meta, int64_t stride,
             int64_t size, std::vector<int64_t> assignment, bool all_replicas, int64_t shard_over,
             int remote_buffer, int64_t remote_entry) {
            Tensor& tensor = p.graph_of_number(g).create_tensor(
                id, info_of(dtype, std::move(shape), std::move(meta)), px::TensorType::kVariable);
            tensor.variable = variable_settings(stride, size, std::move(assignment), all_replicas, shard_over,
                                                remote_buffer, remote_entry);
            return tensor.number();
          },
          py::arg("graph"), py::arg("id"), py::arg("dtype"), py::arg("shape"),
          py::arg("meta_shape") = Shape{}, py::arg("stride") = 1, py::arg("size") = 0,
          py::arg("assignment") = std::vector<int64_t>{}, py::arg("all_replicas") = false,
          py::arg("shard_over") = 1, py::arg("remote_buffer") = -1, py::arg("remote_entry") = 0)
      .def(
          "set_variable",
          [](Program& p, int64_t t, int64_t stride, int64_t size, std::vector<int64_t> assignment,
             bool all_replicas, int64_t shard_over, int remote_buffer, int64_t remote_entry) {
            p.tensor_of_number(t).variable = variable_settings(
                stride, size, std::move(assignment), all_replicas, shard_over, remote_buffer, remote_entry);
          },
          py::arg("tensor"), py::arg("stride") = 1, py::arg("size") = 0,
          py::arg("assignment") = std::vector<int64_t>{}, py::arg("all_replicas") = false,
          py::arg("shard_over") = 1, py::arg("remote_buffer") = -1, py::arg("remote_entry") = 0)
      .def("variable",
           [](Program& p, int64_t t) {
             const px::VariableSettings& v = p.tensor_of_number(t).variable;
             py::dict settings;
             settings["stride"] = v.grouping.stride;
             settings["size"] = v.grouping.size;
             settings["assignment"] = v.grouping.assignment;
             settings["all_replicas"] = v.all_replicas;
             settings["shard_over"] = v.shard_over;
             settings["remote_buffer"] = v.remote_buffer;
             settings["remote_entry"] = v.remote_entry;
             return settings;
           })
      .def("add_constant",
           [](Program& p, int g, const std::string& id, int dtype, const py::array& array) {
             dtype_of(array.dtype(), "constant '" + id + "'");
             px::TensorInfo info = info_of(dtype, shape_of(array), {});
             const std::optional<DType> device = px::on_device(info.dtype);
             if (!device)
               throw Error(
                   ErrorCode::kTypeMismatch,
                   fmt::format("no such type on the device: constant '{}' is {}", id, to_string(info)));
             const py::array narrowed =
                 py::array::ensure(array.attr("astype")(numpy_type(*device)), py::array::c_style);
             Tensor& tensor = p.graph_of_number(g).create_tensor(id, std::move(info), px::TensorType::kConst);
             tensor.constant = ir::make_constant(*device, shape_of(narrowed), narrowed.data());
             return tensor.number();
           })
      .def("constant",
           [](Program& p, int64_t t) -> py::object {
             const Tensor& tensor = p.tensor_of_number(t);
             if (tensor.constant == nullptr) return py::none();
             return to_python(Attribute(tensor.constant));
           })
      .def("find_tensor",
           [](Program& p, int g, const std::string& id) {
             const Tensor* tensor = p.graph_of_number(g).find_tensor(id);
             return tensor == nullptr ? int64_t{-1} : tensor->number();
           })
      .def("tensor_id", [](Program& p, int64_t t) { return p.tensor_of_number(t).id(); })
      .def("tensor_info", [](Program& p, int64_t t) { return to_tuple(p.tensor_of_number(t).info); })
      .def(
          "set_tensor_info",
          [](Program& p, int64_t t, int dtype, Shape shape, Shape meta) {
            p.tensor_of_number(t).info = info_of(dtype, std::move(shape), std::move(meta));
          },
          py::arg("tensor"), py::arg("dtype"), py::arg("shape"), py::arg("meta_shape") = Shape{})
      .def("tensor_type", [](Program& p, int64_t t) { return static_cast<int>(p.tensor_of_number(t).type); })
      .def("set_tensor_type",
           [](Program& p, int64_t t, int type) { p.tensor_of_number(t).type = tensor_type_of(type); })
      .def("tensor_graph", [](Program& p, int64_t t) { return p.tensor_of_number(t).graph().number(); })
      .def("producer",
           [](Program& p, int64_t t) {
             const Op* producer = p.tensor_of_number(t).producer();
             return producer == nullptr ? int64_t{-1} : producer->id();
           })
      .def("consumers",
           [](Program& p, int64_t t) {
             px::OpSet readers;
             for (const Tensor::Use& use : p.tensor_of_number(t).uses()) readers.insert(use.op);
             return ids(readers);
           })
      .def("erase_tensor",
           [](Program& p, int64_t t) {
             Tensor& tensor = p.tensor_of_number(t);
             tensor.graph().erase_tensor(tensor);
           })
      .def("place", [](Program& p, int64_t t) {
        const px::Place place = px::place_of(p.tensor_of_number(t));
        return py::make_tuple(
            place.ipu, place.tile_set ? std::optional<int>(static_cast<int>(*place.tile_set)) : std::nullopt);
      });
}

}  // namespace ipu::bindings
