// Operations from users' shared libraries (include/ipu/custom_op.h) as op definitions like any other: typed,
// checked, differentiated, interpreted and lowered by what their table says. Not in docs/ops.md nor among
// all_ops().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/op_def.h"

namespace ipu::ops {

// Loads a library and registers its operations; returns their names. A library that is loaded already changes
// nothing. To be called before modules that use the operations are parsed, built or compiled. Throws
// Error(kFileCorrupt) when the file is no such library, its table is not of this version or broken, or an
// operation exists already: then none of it is registered.
std::vector<std::string> load_custom_ops(const std::string& path);

// The kind of an operation by its identity, also of a library that somebody else has loaded into this process
// (dlopen): those that export `ipu_custom_ops` are registered as by load_custom_ops(). Throws
// Error(kUnsupportedOps) with all that are known when there is none.
std::string find_custom_op(const std::string& domain, const std::string& name, int64_t version);

// The one that is there without a library: torch.gather(data, -1, index).
inline constexpr std::string_view kFastGather = "poptorch.custom_ops.FastGatherLastDim";

std::vector<const OpDef*> custom_ops();  // loaded so far, sorted by name

// For the loader (op_def.cc): a definition that all_ops() does not list. False when the name is taken.
bool register_custom_definition(OpDef def);

}  // namespace ipu::ops
