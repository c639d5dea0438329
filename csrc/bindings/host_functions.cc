#include "bindings/host_functions.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/host_memory.h"
#include "python/interpreter_lock.h"
#include "python/without_lock.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;

at::Tensor tensor_of(const kernels::HostArray& array) {
  at::Tensor tensor =
      at::empty(array.spec.shape, at::TensorOptions().dtype(tf::scalar_type(array.spec.dtype)));
  if (tensor.nbytes() > 0) std::memcpy(tf::mutable_host_data(tensor), array.data, tensor.nbytes());
  return tensor;
}

// The wrapper has compared what the function gives with what it gave at capture; a file may want something else.
void take(const std::string& name, const std::vector<at::Tensor>& given,
          std::span<const kernels::HostArray> results) {
  const auto refuse = [&] {
    throw Error(ErrorCode::kExecution,
                "host call failed: '" + name + "' gives other tensors than the program takes");
  };
  if (given.size() != results.size()) refuse();
  for (size_t i = 0; i < results.size(); ++i) {
    tf::require_host_memory(given[i], "a result of '" + name + "'");
    const at::Tensor plain = given[i].contiguous();
    if (plain.sizes() != at::IntArrayRef(results[i].spec.shape) ||
        plain.scalar_type() != tf::scalar_type(results[i].spec.dtype))
      refuse();
    if (plain.nbytes() > 0) std::memcpy(results[i].data, tf::host_data(plain), plain.nbytes());
  }
}

kernels::HostFunction function_of(const std::string& name, py::object callable) {
  auto shared = std::shared_ptr<py::object>(new py::object(std::move(callable)), [](py::object* f) {
    python::InsideInterpreter inside;
    delete f;
  });
  return [name, shared](int replica, std::span<const kernels::HostArray> operands,
                        std::span<const kernels::HostArray> results) {
    python::InsideInterpreter inside;
    try {
      std::vector<at::Tensor> tensors;
      for (const kernels::HostArray& operand : operands) tensors.push_back(tensor_of(operand));
      const py::object given = (*shared)(replica, tensors);
      take(name, given.cast<std::vector<at::Tensor>>(), results);
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_Exception)) {  // KeyboardInterrupt, SystemExit: it leaves as itself
        e.restore();
        throw Error(ErrorCode::kInterrupted, "interrupted: in the host function '" + name + "'");
      }
      throw Error(ErrorCode::kExecution, "host call failed: " + std::string(py::str(e.value())));
    }
  };
}

}  // namespace

void define_host_functions(py::class_<tf::Executor>& executor) {
  executor.def(
      "set_host_functions",
      [](tf::Executor& e, const py::dict& functions) {
        kernels::HostFunctions bound;
        for (const auto& [name, f] : functions) {
          const auto text = name.cast<std::string>();
          bound.emplace(text, function_of(text, py::reinterpret_borrow<py::object>(f)));
        }
        python::without_gil([&] { e.session().set_host_functions(std::move(bound)); });
      },
      py::arg("functions"), "f(replica, tensors) -> tensors, by the name the program has; before attaching");
}

}  // namespace ipu::bindings
