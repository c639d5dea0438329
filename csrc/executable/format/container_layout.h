// Constants of the container that its writer and its reader share (docs/file-format.md).
#pragma once

#include <cstdint>
#include <string>

namespace ipu::executable::layout {

inline const std::string kSeal = "seal";             // the last tensor: digest of all bytes before the data
inline const std::string kDigestPrefix = "digest:";  // + name of a tensor, in the metadata
inline constexpr int64_t kSealBytes = 16;
inline constexpr int64_t kAlignment = 64;                 // of the data in the file
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // safetensors' own limit

}  // namespace ipu::executable::layout
