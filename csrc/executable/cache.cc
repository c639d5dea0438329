#include "executable/cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "executable/digest.h"
#include "executable/file.h"
#include "ir/text.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::executable {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kSuffix = ".poptorch";
constexpr const char* kMetadataPrefix = "key:";
constexpr int64_t kMaxPrintedConstant = 0;  // the text keeps the shapes of constants, never their values
constexpr size_t kMaxEntriesCompared = 1000;
constexpr auto kPoll = std::chrono::milliseconds(20);

// The text of a module with the values of its constants cut out: "dense<f32[2]: #123>" → "dense<f32[2]: #>".
std::string structure_text(const ir::Module& module) {
  ir::PrintOptions options;
  options.locations = false;
  options.origins = false;
  options.max_constant_elements = kMaxPrintedConstant;
  std::string text = ir::print(module, options), kept;
  kept.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t begin = text.find("dense<", at);
    size_t colon = begin == std::string::npos ? begin : text.find(": ", begin);
    size_t end = colon == std::string::npos ? colon : text.find('>', colon);
    if (end == std::string::npos) {
      kept.append(text, at);
      break;
    }
    kept.append(text, at, colon + 2 - at);
    at = end;
  }
  return kept;
}

std::string constants_digest(const ir::Module& module) {
  Digest digest;
  auto add = [&](const ConstantPtr& data) {
    if (data != nullptr) digest.add(digest_of(*data));
  };
  for (const ir::Variable& variable : module.variables()) add(variable.initial);
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      for (const auto& [name, value] : op->attributes)
        if (const auto* constant = std::get_if<ConstantPtr>(&value)) add(*constant);
  return digest.hex();
}

// A new build of this library may compile differently under the same version: its own bytes are part of the
// key.
const std::string& library_digest() {
  static const std::string digest = [] {
    Dl_info info;
    Digest result;
    if (dladdr(reinterpret_cast<void*>(&library_digest), &info) != 0 && info.dli_fname != nullptr) {
      std::ifstream file(info.dli_fname, std::ios::binary);
      std::vector<char> block(1 << 20);
      while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
        result.add(std::string_view(block.data(), static_cast<size_t>(file.gcount())));
    }
    return result.hex();
  }();
  return digest;
}

std::string options_text(const CompileOptions& options) {
  std::ostringstream text;
  text << "pipeline=" << options.pipeline << " replicas=" << options.replicas
       << " device_iterations=" << options.device_iterations << " accumulation=" << options.accumulation
       << " auto_round_num_ipus=" << options.auto_round_num_ipus
       << " any_ipu_count=" << options.any_ipu_count;
  return text.str();
}

std::string machine_text(const target::System& system) {
  std::ostringstream text;
  text << "name=" << system.name << " ipu_version=" << system.ipu_version << " num_ipus=" << system.num_ipus
       << " tiles_per_ipu=" << system.tiles_per_ipu << " bytes_per_tile=" << system.bytes_per_tile
       << " clock_hz=" << system.clock_hz;
  return text.str();
}

// Which parts of two keys differ; words of texts are compared one by one: "options (replicas=1 →
// replicas=2)".
std::string difference(const CacheKey& wanted, const CacheKey& entry, int* count) {
  std::string text;
  *count = 0;
  for (const auto& [part, value] : wanted) {
    auto at = entry.find(part);
    const std::string other = at == entry.end() ? "" : at->second;
    if (other == value) continue;
    ++*count;
    text += (text.empty() ? "" : ", ") + part;
    if (part != "options" && part != "machine") continue;
    std::istringstream a(other), b(value);
    std::string from, to, details;
    while (a >> from && b >> to)
      if (from != to) details += (details.empty() ? "" : ", ") + from + " -> " + to;
    if (!details.empty()) text += " (" + details + ")";
  }
  return text;
}

std::string explain_miss(const CacheKey& key, const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(directory, ignored))
    if (file.path().extension() == kSuffix) names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  if (names.empty()) return "the folder has no entry yet";
  if (names.size() > kMaxEntriesCompared) names.resize(kMaxEntriesCompared);
  std::string best, nearest;
  int fewest = INT32_MAX;
  for (const std::string& name : names) {
    CacheKey other;
    try {
      for (const auto& [field, value] : Container::read_metadata((fs::path(directory) / name).string()))
        if (field.starts_with(kMetadataPrefix)) other[field.substr(std::strlen(kMetadataPrefix))] = value;
    } catch (const Error&) {
      continue;  // it will be noticed when it is wanted
    }
    int count = 0;
    std::string text = difference(key, other, &count);
    if (count >= fewest) continue;
    fewest = count;
    best = text;
    nearest = name;
  }
  if (nearest.empty()) return "no entry can be read";
  return "the nearest entry, " + nearest + ", differs in: " + best;
}

// Held by the process that compiles an entry. The kernel releases it when the process dies.
class EntryLock {
 public:
  EntryLock(std::string path, const std::function<bool()>& interrupted) : path_(std::move(path)) {
    for (bool told = false;;) {
      file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (file_ < 0)
        throw Error(ErrorCode::kFileAccess,
                    "cannot write file: " + path_ + ": " + std::strerror(errno) + ".");
      while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
          // File systems without locks: two processes may compile the same entry, which costs time only.
          log(LogLevel::kDebug, "executable cache: no lock on " + path_ + ": " + std::strerror(errno));
          return;
        }
        if (!told)
          log(LogLevel::kInfo, "executable cache: waiting for another process to compile this program");
        told = true;
        if (interrupted && interrupted()) {
          ::close(file_);
          throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for another process to compile");
        }
        std::this_thread::sleep_for(kPoll);
      }
      // The previous owner removes the file: only a lock on the file that is there now counts.
      struct stat held, there;
      if (::fstat(file_, &held) == 0 && ::stat(path_.c_str(), &there) == 0 && held.st_ino == there.st_ino)
        return;
      ::close(file_);
    }
  }
  ~EntryLock() {
    ::unlink(path_.c_str());
    ::close(file_);
  }
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

std::optional<Executable> load(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    return read_executable(Container::read(path));
  } catch (const Error& error) {
    log(LogLevel::kWarn, "executable cache: entry ignored, compiling again: " + error.message());
    return std::nullopt;
  }
}

void store(const std::string& path, const CacheKey& key, const Executable& executable) {
  ContainerWriter writer;
  for (const auto& [part, value] : key) writer.metadata[kMetadataPrefix + part] = value;
  const Signature none;
  add_executable(writer, executable, none);
  writer.write(path);
}

}  // namespace

// What passes read from the environment (passes/recompute.cc).
static std::string environment_text() {
  std::string text;
  for (const char* name : {"POPTORCH_EXECUTE_RECOMPUTE", "POPTORCH_HOST_MEMORY"})
    if (const char* value = std::getenv(name)) text += std::string(" ") + name + "=" + value;
  return text;
}

CacheKey cache_key(const ir::Module& module, const target::System& system, const CompileOptions& options,
                   const std::string& version) {
  return {{"graph", digest_hex(structure_text(module))},
          {"constants", constants_digest(module)},
          {"options", options_text(options) + environment_text()},
          {"machine", machine_text(system)},
          {"version", version + " " + library_digest()}};
}

std::string entry_name(const CacheKey& key) {
  Digest digest;
  for (const auto& [part, value] : key) digest.add(part).add("=").add(value).add("\n");
  return digest.hex() + std::string(kSuffix);
}

Executable compile_cached(ir::Module& module, const target::System& system, const CompileOptions& options,
                          const CacheOptions& cache) {
  if (cache.directory.empty()) return compile(module, system, options);
  const auto begin = std::chrono::steady_clock::now();
  std::error_code failure;
  fs::create_directories(cache.directory, failure);
  if (failure)
    throw Error(ErrorCode::kFileAccess, "cannot write file: the folder of the executable cache, " +
                                            cache.directory + ": " + failure.message() + ".");
  const CacheKey key = cache_key(module, system, options, cache.version);
  const std::string path = (fs::path(cache.directory) / entry_name(key)).string();
  auto hit = [&]() -> std::optional<Executable> {
    std::optional<Executable> found = load(path);
    if (!found) return found;
    log(LogLevel::kInfo, "executable cache: hit, " + path);
    found->compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    found->from_cache = true;
    return found;
  };
  if (std::optional<Executable> found = hit()) return std::move(*found);
  EntryLock lock(path.substr(0, path.size() - kSuffix.size()) + ".lock", cache.interrupted);
  if (std::optional<Executable> found = hit()) return std::move(*found);
  if (log_enabled(LogLevel::kInfo))
    log(LogLevel::kInfo, "executable cache: miss, " + explain_miss(key, cache.directory));
  Executable result = compile(module, system, options);
  try {
    store(path, key, result);
  } catch (const Error& error) {
    log(LogLevel::kWarn, "executable cache: the new entry could not be written: " + error.message());
  }
  return result;
}

}  // namespace ipu::executable
