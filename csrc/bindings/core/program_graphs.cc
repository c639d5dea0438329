// Graphs of a program, by number.
#include <fmt/core.h>

#include <algorithm>

#include "bindings/core/program_values.h"
#include "support/error.h"

namespace ipu::bindings {

using px::Graph;
using px::Program;
using px::Tensor;

namespace {

// Where element i stands; at or past the end: the last one, as PopART has it. Programs remove several in ascending order
// without correcting their places.
std::vector<Tensor*>::iterator place_or_last(const Graph& graph, std::vector<Tensor*>& tensors, int64_t i,
                                             const char* what) {
  const std::ptrdiff_t count = std::ssize(tensors);
  if (i < 0 || count == 0)
    throw Error(ErrorCode::kInvalidIr,
                fmt::format("no such {}: {} of {}, which has {}", what, i, described(graph), count));
  return tensors.begin() + std::min<std::ptrdiff_t>(i, count - 1);
}

}  // namespace

void bind_graphs(ProgramClass& c) {
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
           [](Program& p, int g, int64_t i) {
             Graph& graph = p.graph_of_number(g);
             const auto at = place_or_last(graph, graph.inputs, i, "input");
             graph.by_reference.erase(*at);
             graph.inputs.erase(at);
           })
      .def("remove_output",
           [](Program& p, int g, int64_t i) {
             Graph& graph = p.graph_of_number(g);
             graph.outputs.erase(place_or_last(graph, graph.outputs, i, "output"));
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

}  // namespace ipu::bindings
