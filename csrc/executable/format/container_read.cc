// Reading: sizes before anything else, then the seal of the header, then the header, then the digest of every
// tensor. What a message names is the first part that does not hold.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "executable/digest.h"
#include "executable/format/container.h"
#include "executable/format/container_layout.h"
#include "executable/format/json_text.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::executable {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 14> kFileDtypes{{{"F64", 8},
                                                                            {"I64", 8},
                                                                            {"U64", 8},
                                                                            {"F32", 4},
                                                                            {"I32", 4},
                                                                            {"U32", 4},
                                                                            {"F16", 2},
                                                                            {"BF16", 2},
                                                                            {"I16", 2},
                                                                            {"U16", 2},
                                                                            {"I8", 1},
                                                                            {"U8", 1},
                                                                            {"BOOL", 1},
                                                                            {"F8_E5M2", 1}}};
constexpr int kMaxHeaderDepth = 4;
constexpr size_t kPrefix = 8;  // bytes of the length in front of the header

// The one way by which a file complains of its contents: `what` may quote any of its bytes.
[[noreturn]] void fail_corrupt(const std::string& source, const std::string& what) {
  constexpr size_t kMaxBytes = 1000;
  throw Error(ErrorCode::kFileCorrupt,
              fmt::format("corrupt file: {}: {}.", source, quotation(what, kMaxBytes)));
}

[[noreturn]] void fail_access(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kFileAccess, fmt::format("cannot read file: {}: {}.", path, why));
}

class File {
 public:
  File(const std::string& path, Writers writers) : path_(path) {
    // Opening a pipe for reading would wait for somebody who writes.
    const int links = writers == Writers::kThisUser ? O_NOFOLLOW : 0;
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | links);
    if (file_ < 0 && errno == ELOOP && links != 0) fail_access(path, "a symbolic link");
    if (file_ < 0) fail_access(path, std::strerror(errno));
    try {
      check(writers);
    } catch (const Error&) {
      ::close(file_);
      throw;
    }
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  uint64_t size() const { return size_; }
  // `count` bytes from `at`, fewer where the file ends.
  std::vector<std::byte> read(uint64_t at, uint64_t count) {
    std::vector<std::byte> bytes(std::min(count, size_ - std::min(size_, at)));
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t n = ::pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_access(path_, std::strerror(errno));
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  void check(Writers writers) {
    struct stat info;
    if (::fstat(file_, &info) != 0) fail_access(path_, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) fail_access(path_, "not a regular file");
    if (writers == Writers::kThisUser && info.st_uid != ::geteuid())
      fail_access(path_, "it belongs to another user");
    if (writers == Writers::kThisUser && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      fail_access(path_, "other users may write it");
    size_ = static_cast<uint64_t>(info.st_size);
  }

  std::string path_;
  int file_ = -1;
  uint64_t size_ = 0;
};

uint64_t header_length(std::span<const std::byte> bytes, uint64_t file_size, const std::string& source) {
  uint64_t length = 0;
  if (file_size < kPrefix + 2 + layout::kSealBytes)
    fail_corrupt(source, fmt::format("truncated: {} bytes are too few for an executable", file_size));
  for (size_t i = 0; i < kPrefix; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length < 2 || length > layout::kMaxHeaderBytes || bytes[kPrefix] != std::byte{'{'})
    fail_corrupt(source,
                 "not an executable of poptorch (the header has no legal length or does not begin "
                 "with '{')");
  return length;
}

struct Entry {
  std::string dtype;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::map<std::string, Entry> entries;
  uint64_t data_bytes = 0;  // after the header
};

Header parse_header(std::string_view text, const std::string& source) {
  auto fail = [&](const std::string& what) { fail_corrupt(source, "header: " + what); };
  nlohmann::json json;
  try {
    json = parse_json(text, kMaxHeaderDepth);
  } catch (const Error& error) {
    fail_corrupt(source, fmt::format("header: not a JSON object, or cut off ({})", error.message()));
  }
  Header header;
  if (!json.is_object()) fail("not a JSON object");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) fail(fmt::format("entry '{}' is not an object", quotation(name)));
    if (name == "__metadata__") {
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string()) fail(fmt::format("metadata '{}' is not text", quotation(key)));
        header.metadata[key] = entry.get<std::string>();
      }
      continue;
    }
    auto at = [&](const char* key) -> const nlohmann::json& {
      auto found = value.find(key);
      if (found == value.end()) fail(fmt::format("tensor '{}' has no {}", quotation(name), key));
      return *found;
    };
    auto number = [&](const nlohmann::json& n) {
      if (!n.is_number_unsigned() || n.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        fail(fmt::format("tensor '{}' has a size that is no natural number", quotation(name)));
      return n.get<uint64_t>();
    };
    Entry entry;
    if (!at("dtype").is_string() || !at("shape").is_array() || !at("data_offsets").is_array() ||
        at("data_offsets").size() != 2 || value.size() != 3)
      fail(fmt::format("tensor '{}' is not {{dtype, shape, data_offsets}}", quotation(name)));
    entry.dtype = at("dtype").get<std::string>();
    const int64_t width = file_dtype_bytes(entry.dtype);
    if (width == 0)
      fail(fmt::format("tensor '{}' has the unknown type '{}'", quotation(name), quotation(entry.dtype)));
    int64_t bytes = width;
    for (const nlohmann::json& extent : at("shape")) {
      entry.shape.push_back(static_cast<int64_t>(number(extent)));
      if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
        fail(fmt::format("tensor '{}' has a size that overflows", quotation(name)));
    }
    entry.begin = number(at("data_offsets")[0]);
    entry.end = number(at("data_offsets")[1]);
    if (entry.begin > entry.end || static_cast<int64_t>(entry.end - entry.begin) != bytes)
      fail(fmt::format("tensor '{}' has offsets that do not fit its shape", quotation(name)));
    header.entries.emplace(name, std::move(entry));
  }
  std::vector<const std::pair<const std::string, Entry>*> order;
  for (const auto& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  for (const auto* entry : order) {
    if (entry->second.begin != header.data_bytes)
      fail(fmt::format("tensor '{}' overlaps another or leaves a gap", quotation(entry->first)));
    header.data_bytes = entry->second.end;
  }
  return header;
}

const std::string& text_of(const Header& header, const std::string& name, const std::string& source) {
  auto at = header.metadata.find(name);
  if (at == header.metadata.end())
    fail_corrupt(source, fmt::format("header: metadata '{}' is missing", name));
  return at->second;
}

void check_format(const Header& header, const std::string& source) {
  if (text_of(header, "format", source) != kContainerFormat)
    fail_corrupt(source, fmt::format("not an executable of poptorch (format '{}')",
                                     quotation(text_of(header, "format", source))));
  const std::string& version = text_of(header, "format_version", source);
  if (version != std::to_string(kContainerVersion))
    throw Error(
        ErrorCode::kFileVersion,
        fmt::format("file version: {} has container version {}; this version of poptorch reads version {}.\n"
                    "  try:      compile and save again with this version.",
                    source, quotation(version), kContainerVersion));
}

std::string_view text_view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The header of a file of `size` bytes, `head` being its first bytes (header included) and `seal` its
// last 16.
Header check_header(std::span<const std::byte> head, uint64_t length, std::span<const std::byte> seal,
                    uint64_t size, const std::string& source) {
  if (length > size - kPrefix - layout::kSealBytes)
    fail_corrupt(source, fmt::format("truncated: the header alone has {} bytes, the file {}", length, size));
  const std::string_view text = text_view(head.subspan(kPrefix, length));
  const DigestBytes digest = digest_of(head.first(kPrefix + length));
  const bool sealed = std::equal(seal.begin(), seal.end(), digest.begin(), digest.end());
  Header header = parse_header(text, source);
  const uint64_t expected = kPrefix + length + header.data_bytes;
  if (expected != size)
    fail_corrupt(source, expected > size ? fmt::format("truncated: {} of {} bytes are there", size, expected)
                                         : fmt::format("{} bytes too many at the end", size - expected));
  if (!sealed) fail_corrupt(source, "header: its checksum does not fit the seal at the end of the file");
  auto last = header.entries.find(layout::kSeal);
  if (last == header.entries.end() || last->second.end != header.data_bytes ||
      last->second.end - last->second.begin != static_cast<uint64_t>(layout::kSealBytes))
    fail_corrupt(source, "header: the seal is not the last tensor");
  check_format(header, source);
  return header;
}

}  // namespace

int64_t file_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, width] : kFileDtypes)
    if (name == dtype) return width;
  return 0;
}

Container Container::read(const std::string& path, Writers writers) {
  File file(path, writers);
  return parse(file.read(0, file.size()), path);
}

Container Container::parse(std::vector<std::byte> bytes, std::string source) {
  Container container;
  container.bytes_ = std::move(bytes);
  container.source_ = std::move(source);
  container.check_and_index();
  return container;
}

std::map<std::string, std::string> Container::read_metadata(const std::string& path, Writers writers) {
  File file(path, writers);
  const uint64_t length = header_length(file.read(0, kPrefix + 1), file.size(), path);
  std::vector<std::byte> head = file.read(0, kPrefix + length);
  std::vector<std::byte> seal = file.read(file.size() - layout::kSealBytes, layout::kSealBytes);
  if (head.size() != kPrefix + length || seal.size() != static_cast<size_t>(layout::kSealBytes))
    fail_corrupt(path, "truncated");
  return check_header(head, length, seal, file.size(), path).metadata;
}

void Container::check_and_index() {
  std::span<const std::byte> all(bytes_);
  const uint64_t length = header_length(all, all.size(), source_);
  Header header = check_header(all, length, all.last(layout::kSealBytes), all.size(), source_);
  const std::span<const std::byte> data = all.subspan(kPrefix + length);
  metadata_ = std::move(header.metadata);
  for (auto& [name, entry] : header.entries) {
    if (name == layout::kSeal) continue;
    Blob blob{std::move(entry.dtype), std::move(entry.shape),
              data.subspan(entry.begin, entry.end - entry.begin)};
    auto digest = metadata_.find(layout::kDigestPrefix + name);
    if (digest == metadata_.end()) corrupt(fmt::format("header: tensor '{}' has no digest", quotation(name)));
    if (digest->second != hex(digest_of(blob.bytes)))
      corrupt(fmt::format("tensor '{}': its bytes do not fit their checksum", quotation(name)));
    blobs_.emplace(name, std::move(blob));
  }
}

const Blob& Container::blob(const std::string& name) const {
  auto at = blobs_.find(name);
  if (at == blobs_.end()) corrupt(fmt::format("tensor '{}' is missing", quotation(name)));
  return at->second;
}

std::string_view Container::section(const std::string& name) const {
  const Blob& found = blob(name);
  if (found.dtype != "U8") corrupt(fmt::format("tensor '{}' is not made of bytes", quotation(name)));
  return text_view(found.bytes);
}

const std::string& Container::metadata(const std::string& name) const {
  auto at = metadata_.find(name);
  if (at == metadata_.end()) corrupt(fmt::format("metadata '{}' is missing", name));
  return at->second;
}

void Container::corrupt(const std::string& what) const { fail_corrupt(source_, what); }

}  // namespace ipu::executable
