// Whether a program fits the machine: the memory of the fullest tiles and the other limits that a machine has.
#pragma once

#include <string>
#include <vector>

#include "report/memory_map.h"

namespace ipu::report {

// Estimates of memory are known to be off by about this part of what they say.
constexpr double kEstimateError = 0.15;

enum class LimitKind : uint8_t { kTileMemory, kCode, kReceive, kStream, kIpus, kIoTiles };
const char* word(LimitKind kind);  // "tile memory", "code", "receive", "stream", "ipus", "io tiles"

// Something that a program needs of what a machine has, where that is more, or nearly so much.
struct Limit {
  LimitKind kind = LimitKind::kTileMemory;
  int ipu = -1;         // -1: of no IPU
  std::string subject;  // the stream or op it is about
  double needed = 0, allowed = 0;
  std::string source = {};  // where the limit is known from

  bool is_broken() const { return needed > allowed; }
  // An estimate that may be wrong about that.
  bool is_near() const;
};

struct Verdict {
  std::vector<TileMemory> ipus;
  std::vector<Limit> limits;       // broken or near, broken ones first
  std::vector<std::string> cures;  // of the fullest IPU, with numbers, most gain first
  double bytes_per_tile = 0;

  bool fits() const { return limits.empty() || !limits.front().is_broken(); }
  // It fits, or does not, whatever the estimate is off by.
  bool is_certain() const;
};

struct JudgeOptions {
  int64_t replicas = 1;
  MemoryOptions memory = {};
};

// Throws as tile_memory.
Verdict judge(const ir::Module& machine_form, const target::Machine& machine,
              const JudgeOptions& options = {});

// "fits", "fits, near the limit", "does not fit, near the limit", "does not fit".
const char* word(const Verdict& verdict);
// "out of tile memory: IPU 0 needs ... bytes on its fullest tile; ... fit", the classes, the peak, what is largest, what helps; for an
// Error or a warning. Of a program that fits the same after "near the limits of the machine: " or "fits".
std::string diagnosis(const Verdict& verdict);

}  // namespace ipu::report
