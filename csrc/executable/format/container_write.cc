// Writing: header, tensors in order of element size, and the seal that covers the header.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "executable/digest.h"
#include "executable/format/container.h"
#include "executable/format/container_layout.h"
#include "support/error.h"
#include "support/foreign_text.h"
#include "support/regular_file.h"

namespace ipu::executable {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : path_(target + ".tmp-XXXXXX") {
    file_ = ::mkstemp(path_.data());
    if (file_ < 0) fail("create", path_);
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  // mkstemp made it new, by O_EXCL, and for this user alone.
  void open_to_all() {
    mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file_, 0666 & ~mask) != 0) fail("write", path_);
  }
  void rename_to(const std::string& target) {
    if (::fsync(file_) != 0) fail("write", path_);
    if (::rename(path_.c_str(), target.c_str()) != 0) fail("write", target);
    path_.clear();
  }

 private:
  [[noreturn]] static void fail(const char* verb, const std::string& path) {
    throw Error(ErrorCode::kFileAccess,
                fmt::format("cannot {} file: {}: {}.", verb, printable(path), std::strerror(errno)));
  }
  std::string path_;
  int file_ = -1;
};

}  // namespace

void ContainerWriter::add(std::string name, Blob blob) {
  IPU_CHECK(file_dtype_bytes(blob.dtype) > 0, "safetensors has no type " + blob.dtype);
  IPU_CHECK(
      element_count(blob.shape) * file_dtype_bytes(blob.dtype) == static_cast<int64_t>(blob.bytes.size()),
      fmt::format("tensor {} has another size than its shape says", name));
  bool is_new = blobs_.emplace(name, std::move(blob)).second;
  IPU_CHECK(is_new, "two tensors are called " + name);
}

void ContainerWriter::add_section(std::string name, std::string text) {
  const std::string& kept = sections_.emplace(name, std::move(text)).first->second;
  add(std::move(name), {"U8", {static_cast<int64_t>(kept.size())}, bytes_of(kept)});
}

std::vector<std::string> ContainerWriter::names_in_order() const {
  std::vector<std::string> names;
  for (const auto& [name, blob] : blobs_) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return file_dtype_bytes(blobs_.at(a).dtype) > file_dtype_bytes(blobs_.at(b).dtype);
  });
  return names;
}

std::string ContainerWriter::header() const {
  nlohmann::json json = nlohmann::json::object();
  auto& meta = json["__metadata__"] = metadata;
  meta["format"] = kContainerFormat;
  meta["format_version"] = std::to_string(kContainerVersion);
  int64_t at = 0;
  auto entry = [&](const std::string& name, const std::string& dtype, const Shape& shape, int64_t size) {
    json[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + size}}};
    at += size;
  };
  for (const std::string& name : names_in_order()) {
    const Blob& blob = blobs_.at(name);
    entry(name, blob.dtype, blob.shape, static_cast<int64_t>(blob.bytes.size()));
    meta[layout::kDigestPrefix + name] = hex(digest_of(blob.bytes));
  }
  entry(layout::kSeal, "U8", {layout::kSealBytes}, layout::kSealBytes);
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorCode::kFileAccess, std::string("cannot write file: a name is not UTF-8: ") + e.what());
  }
  text.append((layout::kAlignment - (text.size() + 8) % layout::kAlignment) % layout::kAlignment, ' ');
  std::string result(8, '\0');
  for (int i = 0; i < 8; ++i) result[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return result + text;
}

std::vector<std::byte> ContainerWriter::bytes() const {
  std::vector<std::byte> result;
  auto append = [&](std::span<const std::byte> bytes) {
    result.insert(result.end(), bytes.begin(), bytes.end());
  };
  const std::string head = header();
  append(bytes_of(head));
  for (const std::string& name : names_in_order()) append(blobs_.at(name).bytes);
  append(digest_of(bytes_of(head)));
  return result;
}

void ContainerWriter::write(const std::string& path, Writers writers) const {
  if (writers == Writers::kAnybody) check_target(path);  // an entry of a cache may replace what is none
  TemporaryFile file(path);
  if (writers == Writers::kAnybody) file.open_to_all();
  const std::string head = header();
  file.write(bytes_of(head));
  for (const std::string& name : names_in_order()) file.write(blobs_.at(name).bytes);
  file.write(digest_of(bytes_of(head)));
  file.rename_to(path);
}

}  // namespace ipu::executable
