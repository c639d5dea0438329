#include "bindings/core/core_session.h"

#include "support/interruption.h"

namespace ipu::bindings {

PyObject*& core_error_class() {
  static PyObject* error_class = nullptr;
  return error_class;
}

std::unique_ptr<CoreSession> compiled(const std::function<std::unique_ptr<ir::Module>()>& make,
                                      const executable::CompileOptions& options,
                                      const executable::CacheOptions& cache,
                                      const runtime::RunSettings& run) {
  executable::Executable executable = without_gil([&] {
    Interruptible scope(&interrupted);
    std::unique_ptr<ir::Module> module = make();
    return executable::compile_cached(*module, run.device.system(), options, cache);
  });
  auto session = std::make_unique<CoreSession>(std::move(executable));
  session->session().configure(run);
  return session;
}

}  // namespace ipu::bindings
