// The container of executables on disk: a safetensors file in which every byte is covered by a checksum
// (docs/file-format.md). Knows tensors, sections (tensors of bytes) and metadata (text by name), not what is
// in them. Data only: reading never runs anything.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/shape.h"

namespace ipu::executable {

inline constexpr std::string_view kContainerFormat = "poptorch-executable";
inline constexpr int kContainerVersion = 8;

// A view of a tensor in a container. `dtype` is one of safetensors' names.
struct Blob {
  std::string dtype;
  Shape shape;
  std::span<const std::byte> bytes;
};

// Whose files are read: those of anybody, or only a regular file of this user, which no other user may write
// and no symbolic link stands for.
enum class Writers { kAnybody, kThisUser };

// Bytes of one element of a safetensors type; 0 for an unknown name.
int64_t file_dtype_bytes(std::string_view dtype);

class ContainerWriter {
 public:
  std::map<std::string, std::string> metadata;

  // The bytes stay the caller's until the file is written. A name is given once; size and shape agree.
  void add(std::string name, Blob blob);
  void add_section(std::string name, std::string text);  // a U8 tensor with these bytes
  bool has(const std::string& name) const { return blobs_.contains(name); }

  std::vector<std::byte> bytes() const;
  // Writes under a temporary name beside `path` and renames, so that nobody ever sees half a file.
  // `writers` kThisUser: nobody else may read or write it. Error(kFileAccess).
  void write(const std::string& path, Writers writers = Writers::kAnybody) const;

 private:
  std::string header() const;                       // with its length in front and padding
  std::vector<std::string> names_in_order() const;  // widest elements first
  std::map<std::string, Blob> blobs_;
  std::map<std::string, std::string> sections_;
};

class Container {
 public:
  // Reads and checks everything. Error(kFileAccess), Error(kFileCorrupt) naming the part,
  // Error(kFileVersion).
  static Container read(const std::string& path, Writers writers = Writers::kAnybody);
  // The same for bytes; `source` names them in messages.
  static Container parse(std::vector<std::byte> bytes, std::string source);
  // Only the metadata of a file, its header checked: for looking through many files.
  static std::map<std::string, std::string> read_metadata(const std::string& path,
                                                          Writers writers = Writers::kAnybody);

  const std::string& source() const { return source_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::map<std::string, Blob>& blobs() const { return blobs_; }
  bool has(const std::string& name) const { return blobs_.contains(name); }
  // Error(kFileCorrupt) when absent.
  const Blob& blob(const std::string& name) const;
  std::string_view section(const std::string& name) const;
  const std::string& metadata(const std::string& name) const;

  [[noreturn]] void corrupt(const std::string& what) const;

 private:
  void check_and_index();
  std::string source_;
  std::vector<std::byte> bytes_;
  std::map<std::string, Blob> blobs_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace ipu::executable
