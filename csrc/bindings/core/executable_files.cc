#include "bindings/core/executable_files.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/core/core_session.h"
#include "executable/file.h"
#include "python/without_lock.h"
#include "support/error.h"
#include "support/regular_file.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

using executable::Container;

const std::string kArray = std::string(executable::kFrontendPrefix) + "array.";
constexpr const char* kHasProgram = "frontend.has_program";

// An array of the host with safetensors' name of its type.
using NamedArrays = std::map<std::string, std::pair<std::string, py::array>>;

// `session` nullptr: a file without a program.
void save(const CoreSession* session, const std::string& path,
          const std::map<std::string, std::string>& metadata, const NamedArrays& arrays) {
  executable::ContainerWriter writer;
  writer.metadata = metadata;
  writer.metadata[kHasProgram] = session != nullptr ? "true" : "false";
  const executable::Signature none;
  if (session != nullptr) executable::add_executable(writer, session->executable(), none);
  for (const auto& [name, typed] : arrays) {
    const auto& [dtype, array] = typed;
    if ((array.flags() & py::array::c_style) == 0)
      throw Error(ErrorCode::kTypeMismatch, "array " + name + " is not C-contiguous");
    if (const int64_t width = executable::file_dtype_bytes(dtype); width != array.itemsize())
      throw Error(ErrorCode::kTypeMismatch, "array " + name + " has elements of " +
                                                std::to_string(array.itemsize()) +
                                                " bytes, and safetensors' " +
                                                (width == 0 ? "types do not include '" + dtype + "'"
                                                            : dtype + " has " + std::to_string(width)));
    const auto* data = static_cast<const std::byte*>(array.data());
    writer.add(kArray + name, {dtype, shape_of(array), {data, data + array.nbytes()}});
  }
  without_gil([&] { writer.write(path); });
}

py::dict arrays(const Container& file) {
  py::dict result;
  for (const auto& [name, blob] : file.blobs())
    if (name.starts_with(kArray))
      result[py::str(name.substr(kArray.size()))] =
          py::make_tuple(blob.dtype, py::tuple(py::cast(blob.shape)),
                         py::bytes(reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size()));
  return result;
}

}  // namespace

executable::Executable executable_of(const Container& file) {
  if (file.metadata(kHasProgram) != "true") file.corrupt("it holds arrays, and no program");
  executable::Executable program = executable::read_executable(file);
  const int attached = target::attached_system().ipu_version;
  if (program.ipu_version != 0 && program.ipu_version != attached)
    throw Error(ErrorCode::kFileMismatch, "executable of another machine: " + file.source() +
                                              " was compiled for IPU version " +
                                              std::to_string(program.ipu_version) + ", version " +
                                              std::to_string(attached) + " is attached");
  program.from_cache = true;
  return program;
}

void bind_executable_files(py::module_& m) {
  py::class_<Container>(m, "ExecutableFile", py::module_local(),
                        "A file of save_executable, read and checked.")
      .def(py::init(
               [](const std::string& path) { return without_gil([&] { return Container::read(path); }); }),
           py::arg("path"))
      .def_property_readonly("metadata", [](const Container& file) { return file.metadata(); })
      .def("arrays", &arrays, "name -> (safetensors' name of the type, shape, bytes)");
  m.def("check_target", &check_target, py::arg("path"),
        "Error when a file cannot be written there: a device, a pipe.");
  m.def(
      "save_executable", &save, py::arg("session"), py::arg("path"), py::arg("metadata"), py::arg("arrays"),
      "Writes a program (None: none), texts, and arrays as name -> (safetensors' name of the type, array).");
}

}  // namespace ipu::bindings
