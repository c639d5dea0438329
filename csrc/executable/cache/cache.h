// A folder of executables by what they were compiled from. Safe with any number of processes: entries appear
// whole, one process compiles an entry while others wait for it, a damaged entry is compiled again. Never
// deleted here.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "executable/compile.h"

namespace ipu::executable {

struct CacheOptions {
  std::string directory;                   // empty: no cache
  std::string version;                     // of the package, part of the key beside that of this library
  std::function<bool()> interrupted = {};  // asked while waiting for another process
  // Options of the front end that the module holds already, as "name=value ...": a miss says which differ.
  std::string front_end = {};
  // What the front end has against an entry, which may be sound and yet the program of other options; empty: nothing.
  std::function<std::string(const program::Program&)> objection = {};
  std::string suffix = ".poptorch";  // of its files
};

// What decides about the program: "graph", "constants", "options", "machine", "version" → digest or text.
using CacheKey = std::map<std::string, std::string>;
CacheKey cache_key(const ir::Module& module, const target::System& system, const CompileOptions& options,
                   const std::string& version);
std::string entry_name(const CacheKey& key, const std::string& suffix = ".poptorch");  // "<digest>.poptorch"

// compile(), or the entry of the cache. Logs what it did; a miss at level info says which parts of the key
// differ from the nearest entry. Error(kFileAccess) when the folder cannot be used, Error(kInterrupted).
Executable compile_cached(ir::Module& module, const target::System& system, const CompileOptions& options,
                          const CacheOptions& cache);

}  // namespace ipu::executable
