// Ops of a program, by id.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "bindings/core/program_values.h"
#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::bindings {

using px::Graph;
using px::Op;
using px::Program;
using px::Tensor;

namespace {

px::ExecutionContext context_of(const py::handle& number) {
  return member_of<px::ExecutionContext>(number.cast<int>(), px::ExecutionContext::kSubgraph,
                                         "execution context");
}
px::TileSet tile_set_of(const py::handle& number) {
  return member_of<px::TileSet>(number.cast<int>(), px::TileSet::kIo, "tile set");
}

// (name, ipu or None, execution context, tile set, file, line)
px::OpSettings settings_of(const py::tuple& values) {
  constexpr size_t kCount = 6;
  if (values.size() != kCount)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("wrong kind of data: settings are {} values, not {}", kCount, values.size()));
  px::OpSettings settings;
  settings.name = values[0].cast<std::string>();
  if (!values[1].is_none()) settings.ipu = values[1].cast<int64_t>();
  settings.context = context_of(values[2]);
  settings.tile_set = tile_set_of(values[3]);
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
    s.context = context_of(value);
  else if (name == "tile_set")
    s.tile_set = tile_set_of(value);
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

}  // namespace

void bind_ops(ProgramClass& c) {
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
      .def("clone_op",
           [](Program& p, int64_t op, int g) { return p.graph_of_number(g).clone_op(p.op_of_id(op)).id(); })
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

}  // namespace ipu::bindings
