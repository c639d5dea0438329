// Errors on their way to Python. Those of the core get poptorch's names and cures. From inside a torch operator, which
// turns foreign exceptions into RuntimeError, they are raised as Python exceptions; the bindings, which own the Python
// classes, install how.
#pragma once

#include "support/error.h"

namespace ipu::frontends::torch_frontend {

// Sets the Python error and throws what torch passes through unchanged.
using RaiseFunction = void (*)(const Error&);
void set_raise_function(RaiseFunction raise);
[[noreturn]] void raise_through_torch(const Error& error);

// The error as users of poptorch read it.
Error in_words_of_poptorch(const Error& error);

}  // namespace ipu::frontends::torch_frontend
