// The exception classes of the module, and how our errors become them.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "support/error.h"

namespace ipu::bindings {

void define_errors(pybind11::module_& m);

// Sets the Python error indicator; the caller holds the GIL.
void set_python_error(const Error& error);
// Raises an error of another component; `kind`: "error", "recoverable" or "unrecoverable". `context`: the stack
// as text.
[[noreturn]] void throw_python_error(const char* kind, const std::string& message, const std::string& type,
                                     const std::string& recovery_action, const std::string& context);

}  // namespace ipu::bindings
