// Executables on disk, for Python: files with a model part that C++ does not look into.
#include <ATen/ops/empty.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "executable/file.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/executor/signature.h"
#include "frontends/torch/host_memory.h"
#include "python/without_lock.h"
#include "support/regular_file.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using executable::Container;
using python::interrupted;
using python::without_gil;

const std::string kModel = std::string(executable::kFrontendPrefix) + "model";

std::string storage_name(size_t i) {
  std::string name(executable::kFrontendPrefix);
  return name.append("storage.").append(std::to_string(i));
}

void save(const tf::Executor& executor, const std::string& path,
          const std::map<std::string, std::string>& metadata, const py::bytes& model,
          const std::vector<at::Tensor>& storages) {
  executable::ContainerWriter writer;
  writer.metadata = metadata;
  executable::add_executable(writer, executor.session().executable(), executor.signature());
  writer.add_section(kModel, std::string(model));
  for (size_t i = 0; i < storages.size(); ++i) {
    const at::Tensor& t = storages[i];
    if (!t.device().is_cpu() || t.dim() != 1 || !t.is_contiguous())
      throw Error(ErrorCode::kTypeMismatch, "storages are flat CPU tensors");
    const std::byte* data = tf::host_data(t, "a storage");
    writer.add(storage_name(i), {tf::storage_dtype(t.scalar_type()), {t.numel()}, {data, data + t.nbytes()}});
  }
  without_gil([&] { writer.write(path); });
}

// The tensors of the model part, in order; each owns its memory.
std::vector<at::Tensor> storages(const Container& file) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; file.has(storage_name(i)); ++i) {
    const executable::Blob& blob = file.blob(storage_name(i));
    at::Tensor flat = at::empty(blob.shape, at::TensorOptions().dtype(tf::storage_type_of(blob.dtype)));
    if (flat.dim() != 1 || flat.nbytes() != blob.bytes.size()) file.corrupt(storage_name(i) + " is not flat");
    if (!blob.bytes.empty()) std::memcpy(tf::mutable_host_data(flat), blob.bytes.data(), blob.bytes.size());
    tensors.push_back(std::move(flat));
  }
  return tensors;
}

// An executor of the program in the file. `graph`: what the model gives now, for which it must have been
// compiled.
std::unique_ptr<tf::Executor> load(const Container& file, const std::string& graph) {
  executable::Executable program = executable::read_executable(file);
  executable::Signature signature = executable::read_signature(file, program.program.get());
  const int attached = target::attached_system().ipu_version;
  if (program.ipu_version != 0 && program.ipu_version != attached)
    throw Error(ErrorCode::kFileMismatch, "executable of another machine: " + file.source() +
                                              " was compiled for IPU version " +
                                              std::to_string(program.ipu_version) + ", version " +
                                              std::to_string(attached) + " is attached");
  if (signature.graph != graph)
    throw Error(
        ErrorCode::kFileMismatch,
        "executable of another model: " + file.source() +
            " was compiled from another graph than the model gives for its example inputs.\n"
            "  try:      the model, train()/eval() mode and options it was compiled with, or compile again");
  auto executor = std::make_unique<tf::Executor>(std::move(program), std::move(signature));
  executor->session().set_interrupted(&interrupted);
  return executor;
}

}  // namespace

void define_executables(py::module_& m) {
  py::class_<Container>(m, "ExecutableFile", py::module_local())
      .def(py::init(
               [](const std::string& path) { return without_gil([&] { return Container::read(path); }); }),
           py::arg("path"), "Reads a file; Error when a byte of it is wrong.")
      .def_property_readonly("metadata", [](const Container& f) { return f.metadata(); })
      .def("model",
           [](const Container& f) {
             std::string_view bytes = f.section(kModel);
             return py::bytes(bytes.data(), bytes.size());
           })
      .def("storages", &storages)
      .def("executor", &load, py::arg("graph"));
  m.def("check_target", &check_target, py::arg("path"),
        "Error when a file cannot be written there: a device, a pipe.");
  m.def("save_executable", &save, py::arg("executor"), py::arg("path"), py::arg("metadata"), py::arg("model"),
        py::arg("storages"));
  m.def("graph_digest", &tf::graph_digest, py::arg("captured"),
        "Identifies a captured graph: equal for equal graphs in all processes.");
}

}  // namespace ipu::bindings
