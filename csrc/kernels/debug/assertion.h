// The error of the op assertion.
#pragma once

#include <string>
#include <vector>

#include "support/tensor_spec.h"

namespace ipu::kernels {

// Error(kExecution) of type poplar_application_runtime_error, reason "assertion": `message` with each "{}" replaced by the
// next tensor of `data`, of which at most `summarize` elements are shown (all: negative).
[[noreturn]] void raise_assertion(const std::string& message, int64_t summarize,
                                  const std::vector<TensorSpec>& specs,
                                  const std::vector<const std::byte*>& data);

}  // namespace ipu::kernels
