// Errors on their way from inside a torch operator to Python: torch turns foreign exceptions into
// RuntimeError, so ours are raised as Python exceptions first. The bindings, which own the Python classes,
// install how.
#pragma once

#include "support/error.h"

namespace ipu::frontends::torch_frontend {

// Sets the Python error and throws what torch passes through unchanged.
using RaiseFunction = void (*)(const Error&);
void set_raise_function(RaiseFunction raise);
[[noreturn]] void raise_through_torch(const Error& error);

}  // namespace ipu::frontends::torch_frontend
