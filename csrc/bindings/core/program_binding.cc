#include "bindings/core/program_binding.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings/core/core_session.h"
#include "bindings/core/numpy_arrays.h"
#include "bindings/core/python_values.h"
#include "frontends/popxl/differentiate.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/placement.h"
#include "frontends/popxl/to_module.h"
#include "frontends/popxl/transforms.h"
#include "ir/builder.h"
#include "ir/text/text.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace px = popxl;
using px::Graph;
using px::Op;
using px::Program;
using px::Tensor;
using Class = py::class_<Program>;

px::TensorInfo info_of(int dtype, Shape shape, Shape meta_shape) {
  if (dtype < 0 || dtype > static_cast<int>(px::DataType::kUndefined))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("unknown type: number {}", dtype));
  return {static_cast<px::DataType>(dtype), std::move(shape), std::move(meta_shape)};
}

py::tuple to_tuple(const px::TensorInfo& info) {
  return py::make_tuple(static_cast<int>(info.dtype), py::tuple(py::cast(info.shape)),
                        py::tuple(py::cast(info.meta_shape)));
}

template <typename Range>
py::list numbers(const Range& tensors) {
  py::list list;
  for (const Tensor* tensor : tensors) list.append(tensor->number());
  return list;
}

template <typename Range>
py::list ids(const Range& ops) {
  py::list list;
  for (const Op* op : ops) list.append(op->id());
  return list;
}

template <typename Range>
py::list graph_numbers(const Range& graphs) {
  py::list list;
  for (const Graph* graph : graphs) list.append(graph->number());
  return list;
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

// (name, ipu or None, execution context, tile set, file, line)
px::OpSettings settings_of(const py::tuple& values) {
  px::OpSettings settings;
  settings.name = values[0].cast<std::string>();
  if (!values[1].is_none()) settings.ipu = values[1].cast<int64_t>();
  settings.context = static_cast<px::ExecutionContext>(values[2].cast<int>());
  settings.tile_set = static_cast<px::TileSet>(values[3].cast<int>());
  if (const auto file = values[4].cast<std::string>(); !file.empty())
    settings.location =
        std::make_shared<const ir::LocationData>(ir::LocationData{file, values[5].cast<int>(), {}});
  return settings;
}

const px::OpKind& kind_named(const std::string& type) {
  const px::OpKind* kind = px::find_kind(type);
  if (kind == nullptr) throw Error(ErrorCode::kInvalidIr, fmt::format("unknown op type: '{}'", type));
  return *kind;
}

px::OperatorIdentifier identifier_of(const px::OpKind& kind, const py::object& given) {
  if (given.is_none()) return {kind.domain, kind.type, kind.version};
  const auto [domain, type, version] = given.cast<std::tuple<std::string, std::string, int>>();
  return {domain, type, version};
}

std::vector<Graph*> graphs_of(Program& program, const std::vector<int>& graph_numbers) {
  std::vector<Graph*> graphs;
  for (const int number : graph_numbers) graphs.push_back(&program.graph_of_number(number));
  return graphs;
}

// Nothing is left of an op that does not fit.
py::tuple create_op(Program& p, int g, const std::string& type, const py::dict& inputs,
                    const py::dict& outputs, const py::dict& attributes, const py::tuple& settings,
                    const std::vector<int>& callees, const py::object& identifier) {
  Graph& graph = p.graph_of_number(g);
  const px::OpKind& kind = kind_named(type);
  Op& op = graph.create_op(kind, identifier_of(kind, identifier), attributes_of(attributes),
                           settings_of(settings));
  std::vector<Tensor*> made;
  try {
    op.callees = graphs_of(p, callees);
    for (const auto& [i, t] : inputs) op.connect_input(i.cast<int>(), p.tensor_of_number(t.cast<int64_t>()));
    py::dict numbers_of_outputs;
    for (const auto& [i, name] : outputs) {
      Tensor& tensor = op.create_output(i.cast<int>(), graph.unique_id(name.cast<std::string>()));
      made.push_back(&tensor);
      numbers_of_outputs[i] = tensor.number();
    }
    op.setup();
    return py::make_tuple(op.id(), numbers_of_outputs);
  } catch (...) {
    graph.erase_op(op);
    for (Tensor* tensor : made) graph.erase_tensor(*tensor);
    throw;
  }
}

void bind_graphs(Class& c) {
  c.def("create_graph", [](Program& p, const std::string& id) { return p.create_graph(id).number(); })
      .def("erase_graph", [](Program& p, int g) { p.erase_graph(p.graph_of_number(g)); })
      .def("find_graph",
           [](Program& p, const std::string& id) {
             const Graph* graph = p.find_graph(id);
             return graph == nullptr ? -1 : graph->number();
           })
      .def("graphs",
           [](Program& p) {
             py::list list;
             for (const auto& [id, graph] : p.graphs()) list.append(graph->number());
             return list;
           })
      .def("graph_id", [](Program& p, int g) { return p.graph_of_number(g).id(); })
      .def("inputs", [](Program& p, int g) { return numbers(p.graph_of_number(g).inputs); })
      .def("outputs", [](Program& p, int g) { return numbers(p.graph_of_number(g).outputs); })
      .def("tensors",
           [](Program& p, int g) {
             py::list list;
             for (const auto& [id, tensor] : p.graph_of_number(g).tensors()) list.append(tensor->number());
             return list;
           })
      .def("ops",
           [](Program& p, int g) {
             py::list list;
             for (const auto& [id, op] : p.graph_of_number(g).ops()) list.append(id);
             return list;
           })
      .def("schedule", [](Program& p, int g) { return ids(p.graph_of_number(g).schedule()); })
      .def("called", [](Program& p, int g) { return graph_numbers(p.graph_of_number(g).callees()); })
      .def(
          "add_input",
          [](Program& p, int g, const std::string& id, int dtype, Shape shape, Shape meta, int index,
             bool overwrite) {
            Graph& graph = p.graph_of_number(g);
            if (index > static_cast<int>(graph.inputs.size()))
              throw Error(ErrorCode::kInvalidIr,
                          fmt::format("input number out of range: {} of graph '{}', which has {}", index,
                                      graph.id(), graph.inputs.size()));
            Tensor& tensor = graph.create_tensor(id, info_of(dtype, std::move(shape), std::move(meta)),
                                                 px::TensorType::kActGrad);
            if (index < 0 || index == static_cast<int>(graph.inputs.size())) {
              graph.inputs.push_back(&tensor);
            } else if (overwrite) {
              graph.inputs[static_cast<size_t>(index)] = &tensor;
            } else {
              graph.inputs.insert(graph.inputs.begin() + index, &tensor);
            }
            return tensor.number();
          },
          py::arg("graph"), py::arg("id"), py::arg("dtype"), py::arg("shape"),
          py::arg("meta_shape") = Shape{}, py::arg("index") = -1, py::arg("overwrite") = false)
      .def(
          "mark_output",
          [](Program& p, int g, int64_t t, int index, bool overwrite) {
            Graph& graph = p.graph_of_number(g);
            Tensor& tensor = p.tensor_of_number(t);
            if (&tensor.graph() != &graph)
              throw Error(
                  ErrorCode::kInvalidIr,
                  fmt::format("output of another graph: '{}' is not in graph '{}'", tensor.id(), graph.id()));
            if (index > static_cast<int>(graph.outputs.size()))
              throw Error(ErrorCode::kInvalidIr,
                          fmt::format("output number out of range: {} of graph '{}', which has {}", index,
                                      graph.id(), graph.outputs.size()));
            if (index < 0 || index == static_cast<int>(graph.outputs.size())) {
              graph.outputs.push_back(&tensor);
            } else if (overwrite) {
              graph.outputs[static_cast<size_t>(index)] = &tensor;
            } else {
              graph.outputs.insert(graph.outputs.begin() + index, &tensor);
            }
          },
          py::arg("graph"), py::arg("tensor"), py::arg("index") = -1, py::arg("overwrite") = false)
      .def("remove_input",
           [](Program& p, int g, size_t i) {
             Graph& graph = p.graph_of_number(g);
             graph.by_reference.erase(graph.inputs.at(i));
             graph.inputs.erase(graph.inputs.begin() + static_cast<std::ptrdiff_t>(i));
           })
      .def("remove_output",
           [](Program& p, int g, size_t i) {
             Graph& graph = p.graph_of_number(g);
             graph.outputs.at(i);
             graph.outputs.erase(graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
           })
      .def("by_reference", [](Program& p, int g) { return numbers(p.graph_of_number(g).by_reference); })
      .def("set_by_reference",
           [](Program& p, int g, int64_t t) {
             p.graph_of_number(g).by_reference.insert(&p.tensor_of_number(t));
           })
      .def("may_be_differentiated",
           [](Program& p, int g) { return p.graph_of_number(g).may_be_differentiated; })
      .def("set_may_be_differentiated",
           [](Program& p, int g, bool value) { p.graph_of_number(g).may_be_differentiated = value; })
      .def("unique_id",
           [](Program& p, int g, const std::string& name) { return p.graph_of_number(g).unique_id(name); })
      .def("unique_subgraph_id", &Program::unique_subgraph_id)
      .def("intermediate_id", &Program::intermediate_id);
}

px::VariableSettings variable_settings(int64_t stride, int64_t size, std::vector<int64_t> assignment,
                                       bool all_replicas, int64_t shard_over, int remote_buffer,
                                       int64_t remote_entry) {
  return {{stride, size, std::move(assignment)}, all_replicas, shard_over, remote_buffer, remote_entry};
}

void bind_tensors(Class& c) {
  c.def(
       "create_tensor",
       [](Program& p, int g, const std::string& id, int type, int dtype, Shape shape, Shape meta) {
         return p.graph_of_number(g)
             .create_tensor(id, info_of(dtype, std::move(shape), std::move(meta)),
                            static_cast<px::TensorType>(type))
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
           [](Program& p, int64_t t, int type) {
             p.tensor_of_number(t).type = static_cast<px::TensorType>(type);
           })
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

py::object setting(const px::OpSettings& s, const std::string& name) {
  if (name == "name") return py::str(s.name);
  if (name == "ipu") return py::cast(s.ipu);
  if (name == "context") return py::int_(static_cast<int>(s.context));
  if (name == "tile_set") return py::int_(static_cast<int>(s.tile_set));
  if (name == "pipeline_stage") return py::cast(s.pipeline_stage);
  if (name == "execution_phase") return py::cast(s.execution_phase);
  if (name == "batch_serialized_phase") return py::cast(s.batch_serialized_phase);
  if (name == "location")
    return s.location == nullptr ? py::object(py::none())
                                 : py::make_tuple(s.location->file, s.location->line);
  throw Error(ErrorCode::kInvalidIr, "unknown setting of an op: '" + name + "'");
}

void set_setting(px::OpSettings& s, const std::string& name, const py::object& value) {
  if (name == "name")
    s.name = value.cast<std::string>();
  else if (name == "ipu")
    s.ipu = value.cast<std::optional<int64_t>>();
  else if (name == "context")
    s.context = static_cast<px::ExecutionContext>(value.cast<int>());
  else if (name == "tile_set")
    s.tile_set = static_cast<px::TileSet>(value.cast<int>());
  else if (name == "pipeline_stage")
    s.pipeline_stage = value.cast<std::optional<int64_t>>();
  else if (name == "execution_phase")
    s.execution_phase = value.cast<std::optional<int64_t>>();
  else if (name == "batch_serialized_phase")
    s.batch_serialized_phase = value.cast<std::optional<int64_t>>();
  else
    throw Error(ErrorCode::kInvalidIr, "unknown setting of an op: '" + name + "'");
}

py::dict tensor_numbers(const std::map<int, Tensor*>& tensors) {
  py::dict result;
  for (const auto& [i, tensor] : tensors) result[py::int_(i)] = tensor->number();
  return result;
}

// (type, attributes, {own index: index of the exchange} of inputs, the same of outputs) of each transfer of a MultiExchange.
py::list transfers_of(const Op& op) {
  py::list list;
  for (const px::Transfer& transfer : op.transfers)
    list.append(
        py::make_tuple(transfer.kind->type, to_dict(transfer.attributes), transfer.inputs, transfer.outputs));
  return list;
}

// (type, attributes, {input of the gradient op: (where from, forward index)}, {forward input: type}, the forward inputs
// whose gradients it gives). None of an op that is no gradient op.
py::object forward_of(const Op& op) {
  if (op.forward == nullptr) return py::none();
  py::dict consumed, infos;
  for (const auto& [i, input] : op.forward->consumed) {
    static constexpr const char* kFrom[] = {"GradOut", "In", "Out"};
    consumed[py::int_(i)] = py::make_tuple(kFrom[static_cast<int>(input.from)], input.forward_index);
  }
  for (const auto& [i, info] : op.forward->inputs) infos[py::int_(i)] = to_tuple(info);
  return py::make_tuple(op.forward->kind->type, to_dict(op.forward->attributes), consumed, infos,
                        op.forward->differentiated);
}

Op& clone_into(Program& p, int64_t id, int g) {
  const Op& op = p.op_of_id(id);
  Op& copy = p.graph_of_number(g).create_op(op.kind(), op.identifier, op.attributes, op.settings);
  copy.callees = op.callees;
  copy.callee_inputs = op.callee_inputs;
  copy.callee_outputs = op.callee_outputs;
  copy.modified = op.modified;
  copy.transfers = op.transfers;
  if (op.forward != nullptr) copy.forward = std::make_unique<const px::ForwardOp>(*op.forward);
  return copy;
}

void bind_ops(Class& c) {
  c.def("create_op", &create_op, py::arg("graph"), py::arg("type"), py::arg("inputs"), py::arg("outputs"),
        py::arg("attributes"), py::arg("settings"), py::arg("callees") = std::vector<int>{},
        py::arg("identifier") = py::none())
      .def(
          "create_bare_op",
          [](Program& p, int g, const std::string& type, const py::dict& attributes,
             const py::tuple& settings, const py::object& identifier) {
            const px::OpKind& kind = kind_named(type);
            return p.graph_of_number(g)
                .create_op(kind, identifier_of(kind, identifier), attributes_of(attributes),
                           settings_of(settings))
                .id();
          },
          py::arg("graph"), py::arg("type"), py::arg("attributes"), py::arg("settings"),
          py::arg("identifier") = py::none())
      .def("connect_input", [](Program& p, int64_t op, int i,
                               int64_t t) { p.op_of_id(op).connect_input(i, p.tensor_of_number(t)); })
      .def("disconnect_input", [](Program& p, int64_t op, int i) { p.op_of_id(op).disconnect_input(i); })
      .def("connect_output", [](Program& p, int64_t op, int i,
                                int64_t t) { p.op_of_id(op).connect_output(i, p.tensor_of_number(t)); })
      .def("create_output",
           [](Program& p, int64_t op, int i, const std::string& id) {
             return p.op_of_id(op).create_output(i, id).number();
           })
      .def("disconnect_output", [](Program& p, int64_t op, int i) { p.op_of_id(op).disconnect_output(i); })
      .def("setup", [](Program& p, int64_t op) { p.op_of_id(op).setup(); })
      .def("erase_op",
           [](Program& p, int64_t id) {
             Op& op = p.op_of_id(id);
             op.graph().erase_op(op);
           })
      .def("clone_op", [](Program& p, int64_t op, int g) { return clone_into(p, op, g).id(); })
      .def("op_type", [](Program& p, int64_t op) { return p.op_of_id(op).kind().type; })
      .def("op_graph", [](Program& p, int64_t op) { return p.op_of_id(op).graph().number(); })
      .def("op_inputs", [](Program& p, int64_t op) { return tensor_numbers(p.op_of_id(op).inputs()); })
      .def("op_outputs", [](Program& p, int64_t op) { return tensor_numbers(p.op_of_id(op).outputs()); })
      .def("op_identifier",
           [](Program& p, int64_t op) {
             const px::OperatorIdentifier& id = p.op_of_id(op).identifier;
             return py::make_tuple(id.domain, id.type, id.version);
           })
      .def("op_attribute",
           [](Program& p, int64_t op, const std::string& name) -> py::object {
             const Attribute* found = p.op_of_id(op).attributes.find(name);
             return found == nullptr ? py::object(py::none()) : to_python(*found);
           })
      .def("set_op_attribute",
           [](Program& p, int64_t op, const std::string& name, const py::object& value) {
             if (value.is_none()) {
               p.op_of_id(op).attributes.erase(name);
             } else {
               p.op_of_id(op).attributes.set(name, attribute_of(value, "attribute '" + name + "'"));
             }
           })
      .def("op_attributes", [](Program& p, int64_t op) { return to_dict(p.op_of_id(op).attributes); })
      .def("transfers", [](Program& p, int64_t op) { return transfers_of(p.op_of_id(op)); })
      .def("forward", [](Program& p, int64_t op) { return forward_of(p.op_of_id(op)); })
      .def("op_setting", [](Program& p, int64_t op,
                            const std::string& name) { return setting(p.op_of_id(op).settings, name); })
      .def("set_op_setting",
           [](Program& p, int64_t op, const std::string& name, const py::object& value) {
             set_setting(p.op_of_id(op).settings, name, value);
           })
      .def("callees", [](Program& p, int64_t op) { return graph_numbers(p.op_of_id(op).callees); })
      .def("set_callees",
           [](Program& p, int64_t op, const std::vector<int>& graphs) {
             p.op_of_id(op).callees = graphs_of(p, graphs);
           })
      .def("callee_maps",
           [](Program& p, int64_t op) {
             return py::make_tuple(p.op_of_id(op).callee_inputs, p.op_of_id(op).callee_outputs);
           })
      .def("set_callee_maps",
           [](Program& p, int64_t op, std::vector<std::map<int, int>> inputs,
              std::vector<std::map<int, int>> outputs) {
             p.op_of_id(op).callee_inputs = std::move(inputs);
             p.op_of_id(op).callee_outputs = std::move(outputs);
           })
      .def("modified",
           [](Program& p, int64_t op) {
             return std::vector<int>(p.op_of_id(op).modified.begin(), p.op_of_id(op).modified.end());
           })
      .def(
          "set_modified",
          [](Program& p, int64_t op, int i, bool value) {
            if (value) {
              p.op_of_id(op).modified.insert(i);
            } else {
              p.op_of_id(op).modified.erase(i);
            }
          },
          py::arg("op"), py::arg("input"), py::arg("value") = true)
      .def("modifies",
           [](Program& p, int64_t id, int i) {
             const Op& op = p.op_of_id(id);
             const std::vector<int>& own = op.kind().modifies;
             return op.modified.contains(i) || std::find(own.begin(), own.end(), i) != own.end();
           })
      .def(
          "add_edge",
          [](Program& p, int64_t before, int64_t after, bool tied) {
            Op& first = p.op_of_id(before);
            first.graph().add_edge(first, p.op_of_id(after), tied);
          },
          py::arg("before"), py::arg("after"), py::arg("tied") = false)
      .def("remove_edge",
           [](Program& p, int64_t before, int64_t after) {
             Op& first = p.op_of_id(before);
             first.graph().remove_edge(first, p.op_of_id(after));
           })
      .def("before",
           [](Program& p, int64_t op) { return ids(p.op_of_id(op).graph().before(p.op_of_id(op))); })
      .def("after", [](Program& p, int64_t op) { return ids(p.op_of_id(op).graph().after(p.op_of_id(op))); })
      .def("tied", [](Program& p, int64_t op) { return ids(p.op_of_id(op).graph().tied(p.op_of_id(op))); });
}

using Connections = std::vector<std::pair<std::string, std::string>>;
using Infos = std::map<std::string, std::tuple<std::string, Connections, Connections>>;

Connections to_pairs(const std::vector<px::ExpectedConnection>& connections) {
  Connections pairs;
  for (const px::ExpectedConnection& c : connections)
    pairs.emplace_back(c.forward_id, c.type == px::ConnectionType::kFwd ? "Fwd" : "FwdGrad");
  return pairs;
}

std::vector<px::ExpectedConnection> from_pairs(const Connections& pairs) {
  std::vector<px::ExpectedConnection> connections;
  for (const auto& [id, type] : pairs)
    connections.push_back({id, type == "Fwd" ? px::ConnectionType::kFwd : px::ConnectionType::kFwdGrad});
  return connections;
}

px::Stitch stitch_named(const std::string& name) {
  if (name == "RecomputeMinimal") return px::Stitch::kRecomputeMinimal;
  if (name == "RecomputeAllNonInputs") return px::Stitch::kRecomputeAllNonInputs;
  if (name == "AddFwdOutputs") return px::Stitch::kAddFwdOutputs;
  if (name == "SafeAddFwdOutputs") return px::Stitch::kSafeAddFwdOutputs;
  throw Error(ErrorCode::kOption, "unknown stitching: '" + name + "'");
}

Infos differentiate(Program& p, int g, const std::vector<std::string>& provided,
                    const std::optional<std::vector<std::string>>& required, const Infos& known,
                    const std::string& stitch) {
  std::map<std::string, px::GradGraphInfo> infos;
  for (const auto& [id, info] : known)
    infos[id] = {std::get<0>(info), from_pairs(std::get<1>(info)), from_pairs(std::get<2>(info))};
  Infos result;
  for (const auto& [id, info] :
       px::differentiate(p.graph_of_number(g), provided, required, std::move(infos), stitch_named(stitch)))
    result[id] = {info.graph_id, to_pairs(info.inputs), to_pairs(info.outputs)};
  return result;
}

// `key`: what else decides about the program; part of the key of the cache. `model`: for the software model, which takes no
// IPU of the system.
std::unique_ptr<CoreSession> compile(Program& p, const std::string& cache_folder, const std::string& key,
                                     bool model) {
  std::unique_ptr<ir::Module> module = px::to_module(p);
  executable::CompileOptions options;
  options.replicas = static_cast<int>(p.replicas / p.processes);
  options.processes = static_cast<int>(p.processes);
  options.auto_round_num_ipus = !model;
  options.any_ipu_count = model;
  executable::CacheOptions cache;
  cache.directory = cache_folder;
  cache.suffix = ".popef";
  cache.version = "popxl";
  cache.front_end = key;
  cache.interrupted = &interrupted;
  runtime::RunSettings run;
  run.device.ipu_model = model;
  return compiled([&] { return std::move(module); }, options, cache, run);
}

void bind_whole(Class& c) {
  c.def("set_remote_buffer",
        [](Program& p, int id, int dtype, Shape shape, Shape meta, int64_t entries) {
          p.remote_buffers[id] = {info_of(dtype, std::move(shape), std::move(meta)), entries};
        })
      .def("remote_buffers",
           [](Program& p) {
             py::dict result;
             for (const auto& [id, buffer] : p.remote_buffers)
               result[py::int_(id)] = to_tuple(buffer.info) + py::make_tuple(buffer.entries);
             return result;
           })
      .def("differentiate", &differentiate, py::arg("graph"), py::arg("provided"), py::arg("required"),
           py::arg("known"), py::arg("stitch") = "SafeAddFwdOutputs")
      .def("decompose_sums", [](Program& p, int g) { px::decompose_sums(p.graph_of_number(g)); })
      .def("merge_exchange",
           [](Program& p, int g, const std::vector<int64_t>& list) {
             std::vector<Op*> ops;
             for (const int64_t id : list) ops.push_back(&p.op_of_id(id));
             return ids(px::merge_exchange(p.graph_of_number(g), ops));
           })
      .def("prune", [](Program& p, int g) { px::prune(p.graph_of_number(g)); })
      .def("module_text", [](Program& p) { return ir::print(*px::to_module(p)); })
      .def("compile", &compile, py::arg("cache_folder") = "", py::arg("key") = "", py::arg("model") = false);
}

}  // namespace

void bind_program(py::module_& m) {
  Class c(m, "Program", "A program of PopXL: graphs, tensors and ops by number.");
  c.def(py::init<>())
      .def_property_readonly("id", &Program::id)
      .def_readwrite("replicas", &Program::replicas)
      .def_readwrite("processes", &Program::processes)
      .def_readwrite("checks_scales", &Program::checks_scales);
  bind_graphs(c);
  bind_tensors(c);
  bind_ops(c);
  bind_whole(c);
  m.def("kinds", [] {
    py::list list;
    for (const px::OpKind* kind : px::all_kinds()) {
      py::list gradients;
      for (const px::GradientRow& row : kind->gradients) gradients.append(row.type);
      list.append(py::make_tuple(kind->type, kind->class_name, kind->domain, kind->version, kind->modifies,
                                 kind->views, kind->is_optimizer, gradients));
    }
    return list;
  });
}

}  // namespace ipu::bindings
