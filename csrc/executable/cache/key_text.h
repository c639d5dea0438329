// Text of options for the key of the cache.
#pragma once

#include <string>

#include "executable/compile.h"

namespace ipu::executable {

// "name=value ..." of every member: one that is added is in the key, or its table of fields does not compile.
std::string key_text(const CompileOptions& options);
std::string key_text(const target::System& system);

}  // namespace ipu::executable
