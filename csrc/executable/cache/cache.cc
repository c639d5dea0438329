#include "executable/cache/cache.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "executable/cache/cache_lock.h"
#include "executable/cache/key_text.h"
#include "executable/digest.h"
#include "executable/file.h"
#include "ir/text/text.h"
#include "lowering/lower.h"
#include "support/error.h"
#include "support/foreign_text.h"
#include "support/log.h"

namespace ipu::executable {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMetadataPrefix = "key:";
constexpr int64_t kMaxPrintedConstant = 0;  // the text keeps the shapes of constants, never their values
constexpr size_t kMaxEntriesCompared = 1000;

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
      if (from != to) details += fmt::format("{}{} -> {}", details.empty() ? "" : ", ", from, to);
    if (!details.empty()) text += fmt::format(" ({})", details);
  }
  return text;
}

CacheKey key_of(const std::map<std::string, std::string>& metadata) {
  CacheKey key;
  for (const auto& [field, value] : metadata)
    if (field.starts_with(kMetadataPrefix)) key[field.substr(std::strlen(kMetadataPrefix))] = value;
  return key;
}

std::string explain_miss(const CacheKey& key, const std::string& directory, const std::string& suffix) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(directory, ignored))
    if (file.path().extension() == suffix) names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  if (names.empty()) return "the folder has no entry yet";
  if (names.size() > kMaxEntriesCompared) names.resize(kMaxEntriesCompared);
  std::string best, nearest;
  int fewest = INT32_MAX;
  for (const std::string& name : names) {
    CacheKey other;
    try {
      other = key_of(Container::read_metadata((fs::path(directory) / name).string(), Writers::kThisUser));
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
  return fmt::format("the nearest entry, {}, differs in: {}", quotation(nearest), quotation(best, 1000));
}

program::StreamMode mode_of(const ir::Stream& stream) {
  if (stream.direction == ir::StreamDirection::kHostToDevice)
    return stream.constant ? program::StreamMode::kConstantInput : program::StreamMode::kInput;
  return static_cast<program::StreamMode>(stream.mode);
}

// What the host relies on is that of the program it compiles: streams it binds by name and number, variables
// it writes and reads, replicas, and how elements are counted. A file may be sound and yet another program.
void check_host_side(const Container& entry, const ir::Module& module, const target::System& system,
                     const CompileOptions& options, const Executable& found) {
  auto require = [&](bool condition, const std::string& what) {
    if (!condition) entry.corrupt("another program than its key says: " + what);
  };
  require(found.program != nullptr, "it has no code");
  const program::Program& program = *found.program;
  require(found.ipu_version == system.ipu_version, "its machine differs");
  require(program.replicas == options.replicas && program.processes == options.processes &&
              program.input_groups == options.input_groups,
          "its replicas differ");
  require(program.entry_points == lowering::entry_points_of(module), "its entry points differ");
  require(program.streams.size() == module.streams().size(), "its number of streams differs");
  auto stream = program.streams.begin();
  for (const ir::Stream& wanted : module.streams()) {
    const program::Stream& s = *stream++;
    require(s.name == wanted.name && s.mode == mode_of(wanted) &&
                s.spec == TensorSpec::plain(wanted.type.dtype, wanted.type.shape) &&
                s.host_dtype == wanted.host_dtype && s.period == wanted.period && s.block == wanted.block,
            fmt::format("stream {} differs", quotation(s.name)));
  }
  require(program.variables.size() == module.variables().size(), "its number of variables differs");
  // Passes add remote buffers of their own, for activations.
  require(program.remote_buffers.size() >= module.remote_buffers().size(),
          "its number of remote buffers differs");
  auto buffer = program.remote_buffers.begin();
  for (const ir::RemoteBuffer& wanted : module.remote_buffers()) {
    const program::RemoteBuffer& b = *buffer++;
    require(b.name == wanted.name && b.spec == TensorSpec::plain(wanted.type.dtype, wanted.type.shape) &&
                b.entries == wanted.entries,
            fmt::format("remote buffer {} differs", quotation(b.name)));
  }
  auto variable = program.variables.begin();
  for (const ir::Variable& wanted : module.variables()) {
    const program::Variable& v = *variable++;
    const Shape& whole = wanted.shard_over > 1 ? wanted.meta_shape : wanted.type.shape;
    const std::string lives_in =
        v.remote_buffer < 0 ? "" : program.remote_buffers[static_cast<size_t>(v.remote_buffer)].name;
    require(v.name == wanted.name && v.role == wanted.role &&
                v.plain() == TensorSpec::plain(wanted.type.dtype, whole) && v.shards == wanted.shard_over &&
                v.groups == wanted.grouping && lives_in == wanted.remote_buffer &&
                v.remote_entry == wanted.remote_entry &&
                v.retrieve_all == (wanted.retrieval == ir::Retrieval::kAllReplicas) &&
                (v.constant >= 0) == (wanted.initial != nullptr),
            fmt::format("variable {} differs", quotation(v.name)));
  }
}

struct Wanted {
  const CacheKey& key;
  const ir::Module& module;
  const target::System& system;
  const CompileOptions& options;
  const CacheOptions& cache;
};

// The entry, if there is one that this user wrote, whole, for exactly this key and this program.
// `told`: what was said of it before, and is not said again.
std::optional<Executable> load(const std::string& path, const Wanted& wanted, std::string& told) {
  struct stat there;
  if (::lstat(path.c_str(), &there) != 0 && errno == ENOENT) return std::nullopt;
  try {
    const Container entry = Container::read(path, Writers::kThisUser);
    int count = 0;
    const CacheKey key = key_of(entry.metadata());
    if (key != wanted.key)
      entry.corrupt("an entry of another program, renamed: its key differs in " +
                    difference(wanted.key, key, &count));
    Executable found = read_executable(entry);
    check_host_side(entry, wanted.module, wanted.system, wanted.options, found);
    if (const auto& objection = wanted.cache.objection)
      if (const std::string why = objection(*found.program); !why.empty())
        entry.corrupt("another program than its key says: " + why);
    return found;
  } catch (const Error& error) {
    if (error.message() != told)
      log(LogLevel::kWarn, "executable cache: entry ignored, compiling again: " + error.message());
    told = error.message();
    return std::nullopt;
  }
}

void store(const std::string& path, const CacheKey& key, const Executable& executable) {
  ContainerWriter writer;
  for (const auto& [part, value] : key) writer.metadata[kMetadataPrefix + part] = value;
  const Signature none;
  add_executable(writer, executable, none);
  writer.write(path, Writers::kThisUser);
}

}  // namespace

CacheKey cache_key(const ir::Module& module, const target::System& system, const CompileOptions& options,
                   const std::string& version) {
  return {{"graph", digest_hex(structure_text(module))},
          {"constants", constants_digest(module)},
          {"options", key_text(options)},
          {"machine", key_text(system)},
          {"version", fmt::format("{} {}", version, library_digest())}};
}

std::string entry_name(const CacheKey& key, const std::string& suffix) {
  Digest digest;
  for (const auto& [part, value] : key) digest.add(part).add("=").add(value).add("\n");
  return digest.hex() + suffix;
}

// A folder that is new is for this user alone.
static void make_folder(const std::string& directory) {
  std::error_code failure;
  const fs::path folder = fs::absolute(directory, failure).lexically_normal();
  const fs::path leaf = folder.has_filename() ? folder : folder.parent_path();  // "a/b/" is "a/b"
  fs::create_directories(leaf.parent_path(), failure);
  const int error = ::mkdir(leaf.c_str(), 0700) == 0 ? 0 : errno;
  if (error != 0 && !fs::is_directory(leaf, failure))
    throw Error(ErrorCode::kFileAccess,
                fmt::format("cannot write file: the folder of the executable cache, {}: {}.", directory,
                            std::strerror(error)));
}

Executable compile_cached(ir::Module& module, const target::System& system, const CompileOptions& options,
                          const CacheOptions& cache) {
  if (cache.directory.empty() || options.is_dry) return compile(module, system, options);
  const auto begin = std::chrono::steady_clock::now();
  make_folder(cache.directory);
  CacheKey key = cache_key(module, system, options, cache.version);
  if (!cache.front_end.empty()) key["options"] += " " + cache.front_end;
  const std::string path = (fs::path(cache.directory) / entry_name(key, cache.suffix)).string();
  std::string told;
  auto hit = [&]() -> std::optional<Executable> {
    std::optional<Executable> found = load(path, {key, module, system, options, cache}, told);
    if (!found) return found;
    log(LogLevel::kInfo, "executable cache: hit, " + path);
    found->compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    found->from_cache = true;
    return found;
  };
  if (std::optional<Executable> found = hit()) return std::move(*found);
  EntryLock lock(path.substr(0, path.size() - cache.suffix.size()) + ".lock", cache.interrupted);
  if (std::optional<Executable> found = hit()) return std::move(*found);
  if (log_enabled(LogLevel::kInfo))
    log(LogLevel::kInfo, "executable cache: miss, " + explain_miss(key, cache.directory, cache.suffix));
  Executable result = compile(module, system, options);
  try {
    store(path, key, result);
  } catch (const Error& error) {
    log(LogLevel::kWarn, "executable cache: the new entry could not be written: " + error.message());
  }
  return result;
}

}  // namespace ipu::executable
