// Executables as files: which sections a container of an executable has, and the checks between reading one
// and running it (docs/file-format.md).
#pragma once

#include <string>

#include "executable/compile.h"
#include "executable/format/container.h"
#include "executable/signature.h"

namespace ipu::executable {

// What a front end adds: sections and tensors of names that begin with this are its own.
inline constexpr std::string_view kFrontendPrefix = "frontend.";

// Adds an executable and its signature; both outlive the writer.
void add_executable(ContainerWriter& writer, const Executable& executable, const Signature& signature);

// Reads it back. Error(kFileCorrupt) naming the value, Error(kFileVersion) for a kernel this build does not
// have; what comes out has passed check_program, check_plan and the checks of signatures.
Executable read_executable(const Container& container);
Signature read_signature(const Container& container, const program::Program* program);

// Does `signature` bind every stream of `program` to memory of the right size? Error(kFileCorrupt) via
// `container`.
void check_signature(const Container& container, const Signature& signature, const program::Program* program);

}  // namespace ipu::executable
