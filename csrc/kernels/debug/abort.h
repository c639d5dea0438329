// The error of the op abort.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// Error(kExecution) of type poplar_application_runtime_error. `element`: the first that is not zero.
[[noreturn]] void raise_abort(int64_t element);

}  // namespace ipu::kernels
