// The signature of a captured program, and torch's element types by the names files use.
#pragma once

#include "executable/compile.h"
#include "executable/signature.h"
#include "frontends/torch/capture/captured.h"
#include "program/program.h"

namespace ipu::frontends::torch_frontend {

struct CompileSettings;

// "F32", "BF16", "I64", ...; Error(kTypeMismatch) for what no edge takes.
std::string file_dtype(at::ScalarType type);
at::ScalarType scalar_type_of(const std::string& file_dtype);  // Error(kFileCorrupt) for another name

// What is wrong with the elements that a run of `program` takes and gives, for these settings; empty: nothing. For programs that
// others compiled.
std::string objection(const Captured& captured, const CompileSettings& settings,
                      const program::Program& program);

// Which streams of the program carry the inputs and outputs of `captured`. It has none when every output is a
// constant; in a dry run nothing is carried.
executable::Signature make_signature(const Captured& captured, const CompileSettings& settings,
                                     const executable::Executable& executable);
std::string output_stream(int index);  // "output.3"

// The same for storages of a pickled model, which may hold any type of torch that safetensors has.
std::string storage_dtype(at::ScalarType type);
at::ScalarType storage_type_of(const std::string& file_dtype);

// Identifies a captured graph; it has not been compiled yet.
std::string graph_digest(const Captured& captured);

executable::HostTensor host_tensor(const at::Tensor& tensor);
at::Tensor torch_tensor(const executable::HostTensor& tensor);

}  // namespace ipu::frontends::torch_frontend
