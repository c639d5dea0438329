// Prefixes of names that tensors get beside those of the user's, which must not begin so: before the name of the tensor they
// belong to.
#pragma once

namespace ipu::ir {

inline constexpr const char* kGradientPrefix = "Gradient___";
inline constexpr const char* kUpdatedPrefix = "UpdatedVar___";  // of a weight, behind its update
inline constexpr const char* kRestoredPrefix = "Restored___";   // of a value that waited in a stash

}  // namespace ipu::ir
