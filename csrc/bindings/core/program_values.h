// Values that the bindings of programs share: between Python's tuples, lists and dictionaries and those of a program.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "bindings/core/python_values.h"
#include "frontends/popxl/program.h"

namespace ipu::bindings {

namespace py = pybind11;
namespace px = popxl;
using ProgramClass = py::class_<px::Program>;

// Error(kTypeMismatch) for a number that stands for no type.
px::TensorInfo info_of(int dtype, Shape shape, Shape meta_shape);
py::tuple to_tuple(const px::TensorInfo& info);  // the same three, back
Attributes attributes_of(const py::dict& values);
py::dict to_dict(const Attributes& attributes);
std::vector<px::Graph*> graphs_of(px::Program& program, const std::vector<int>& graph_numbers);

// The member of an enum of that number. Error(kTypeMismatch) where there is none.
[[noreturn]] void unknown_member(const char* what, int number);
template <typename Enum>
Enum member_of(int number, Enum last, const char* what) {
  if (number < 0 || number > static_cast<int>(last)) unknown_member(what, number);
  return static_cast<Enum>(number);
}

template <typename Range>
py::list numbers(const Range& tensors) {
  py::list list;
  for (const px::Tensor* tensor : tensors) list.append(tensor->number());
  return list;
}

template <typename Range>
py::list ids(const Range& ops) {
  py::list list;
  for (const px::Op* op : ops) list.append(op->id());
  return list;
}

template <typename Range>
py::list graph_numbers(const Range& graphs) {
  py::list list;
  for (const px::Graph* graph : graphs) list.append(graph->number());
  return list;
}

// One file each: graphs, tensors, ops of a program.
void bind_graphs(ProgramClass& c);
void bind_tensors(ProgramClass& c);
void bind_ops(ProgramClass& c);

}  // namespace ipu::bindings
