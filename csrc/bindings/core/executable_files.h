// Files with an executable, texts and arrays, for PopART's sessions (docs/file-format.md).
#pragma once

#include <pybind11/pybind11.h>

#include "executable/compile.h"
#include "executable/format/container.h"

namespace ipu::bindings {

// The program of such a file. Error(kFileCorrupt) where there is none, Error(kFileMismatch) for another machine.
executable::Executable executable_of(const executable::Container& file);

void bind_executable_files(pybind11::module_& m);

}  // namespace ipu::bindings
