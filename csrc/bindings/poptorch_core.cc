// Python module poptorch.poptorch_core: errors, capture, executor, and small queries. No logic: each function
// is a call.
#include <dlfcn.h>
#include <torch/csrc/utils/pybind.h>

#include <filesystem>

#include "bindings/bindings.h"
#include "bindings/python_errors.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/errors.h"
#include "support/log.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;

enum class TestErrorType {
  kPoptorch,
  kPopart,
  kPopartInternal,
  kPoplibs,
  kPoplarUnrecoverable,
  kPoplarUnknown,
  kPoplarRecoverableFullReset,
  kPoplarLinkError,
};

// Two contexts deep, as an error of a real program is.
void throw_test_error(TestErrorType type) {
  ErrorContext top("throwTestError::topLevel");
  ErrorContext bottom("throwTestError::bottomLevel");
  const std::string message = "This is a test error";
  const auto fail = [&](const char* kind, const char* name, const std::string& text,
                        const char* action = "") {
    throw_python_error(kind, text, name, action,
                       "  [0] throwTestError::bottomLevel\n  [1] throwTestError::topLevel");
  };
  switch (type) {
    case TestErrorType::kPoptorch:
      throw Error(ErrorCode::kExecution, message);
    case TestErrorType::kPopart:
      return fail("error", "popart_exception", message);
    case TestErrorType::kPopartInternal:
      return fail("error", "popart_internal_exception", message);
    case TestErrorType::kPoplibs:
      return fail("error", "poplibs_exception", message);
    case TestErrorType::kPoplarUnrecoverable:
      return fail("unrecoverable", "poplar_unrecoverable_runtime_error", message);
    case TestErrorType::kPoplarUnknown:
      return fail("error", "poplar_unknown_runtime_error", message);
    case TestErrorType::kPoplarRecoverableFullReset:
      return fail("recoverable", "poplar_recoverable_runtime_error", message, "FULL_RESET");
    case TestErrorType::kPoplarLinkError:
      return fail("error", "poplar_link_error", message + "\nOutput of the linker: library -lfoo not found");
  }
}

int hardware_version(int num_ipus) {
  const target::System& system = target::attached_system();
  return num_ipus <= system.num_ipus ? system.ipu_version : 0;
}

LogLevel level_of(int level) {
  if (level < 0 || level > 6 || level == 5) {
    throw Error(ErrorCode::kEnvironment,
                "invalid log level: " + std::to_string(level) + "; expected 0, 1, 2, 3, 4 or 6");
  }
  return static_cast<LogLevel>(level);
}

int64_t tensor_id(const at::Tensor& t) {
  tf::IpuTensorImpl* impl = tf::impl_of(t);
  if (impl == nullptr) {
    throw Error(ErrorCode::kForeignTensor,
                "Expected an IPU tensor: getIpuTensorId got a tensor on " + t.device().str());
  }
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(impl->slot.get()));
}

// Frames of torch, of this package and of the standard library are not the user's lines.
void find_libraries() {
  std::vector<std::string> directories;
  directories.push_back(
      py::str(py::module_::import("torch").attr("__path__").attr("__getitem__")(0)).cast<std::string>() +
      "/");
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&find_libraries), &info) != 0 && info.dli_fname != nullptr) {
    std::filesystem::path file = std::filesystem::absolute(info.dli_fname);
    directories.push_back(file.parent_path().string() + "/");
  }
  py::object os = py::module_::import("os");
  directories.push_back(os.attr("path").attr("dirname")(os.attr("__file__")).cast<std::string>() + "/");
  tf::set_library_directories(std::move(directories));
}

}  // namespace

PYBIND11_MODULE(poptorch_core, m) {
  m.doc() = "Native part of poptorch: capture, compilation, execution.";
  define_errors(m);
  find_libraries();
  define_locks(m);
  define_capture(m);
  define_executor(m);
  define_executables(m);
  define_device(m);
  define_options(m);
  define_changes(m);
  define_processes(m);

  py::enum_<TestErrorType>(m, "TestErrorType")
      .value("Poptorch", TestErrorType::kPoptorch)
      .value("Popart", TestErrorType::kPopart)
      .value("PopartInternal", TestErrorType::kPopartInternal)
      .value("Poplibs", TestErrorType::kPoplibs)
      .value("PoplarUnrecoverable", TestErrorType::kPoplarUnrecoverable)
      .value("PoplarUnknown", TestErrorType::kPoplarUnknown)
      .value("PoplarRecoverableFullReset", TestErrorType::kPoplarRecoverableFullReset)
      .value("PoplarLinkError", TestErrorType::kPoplarLinkError);
  m.def("_throwTestError", &throw_test_error, "Raises the error of that kind, for tests of error handling.");
  m.def("ipuHardwareVersion", &hardware_version, py::arg("num_ipus") = 1,
        "Version of the attached system, 0 when it has fewer IPUs than asked for.");
  m.def(
      "setLogLevel", [](int level) { set_log_level(level_of(level)); }, py::arg("level"),
      "Level of the native log: 0 trace, 1 debug, 2 info, 3 warn, 4 error, 6 off.");
  m.def(
      "setPopartLogLevel", [](int level) { set_backend_log_level(level_of(level)); }, py::arg("level"),
      "Level of the back end's log, numbered in the same way.");
  m.def("setLogDestination", &set_log_destination, py::arg("destination"),
        "Where native log lines go: stderr, stdout or a file.");
  m.def("setMaxRepeatLogs", &set_max_repeat_logs, py::arg("count"),
        "How many identical consecutive native log lines are written.");
  m.def(
      "log", [](int level, const std::string& message) { log(level_of(level), message); }, py::arg("level"),
      py::arg("message"), "A line of the native log; its level as setLogLevel numbers them.");
  m.def(
      "log_enabled", [](int level) { return log_enabled(level_of(level)); }, py::arg("level"),
      "Are lines of this level written?");
  m.def(
      "log_backend",
      [](const std::string& channel, int level, const std::string& message) {
        log_backend(channel, level_of(level), message);
      },
      py::arg("channel"), py::arg("level"), py::arg("message"), "A line of the back end's log.");
  m.def(
      "backend_log_enabled", [](int level) { return backend_log_enabled(level_of(level)); }, py::arg("level"),
      "Are lines of the back end of this level written?");
  m.def("getIpuTensorId", &tensor_id,
        "A number that identifies the memory view an ipu tensor is; Error for CPU tensors.");
  m.def(
      "isCompilingWithDispatcher", [] { return tf::Capture::current() != nullptr; },
      "Is a capture in progress?");
  m.def(
      "poptorchAtExit", [] { frontends::torch_frontend::set_raise_function(nullptr); },
      "Shuts the native side down.");
}

}  // namespace ipu::bindings
