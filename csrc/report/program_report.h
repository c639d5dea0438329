// A compiled program in numbers, from its machine form alone (docs/rationale/machine-form.md): which IPUs it uses, what
// lies in which memory, what waits in rings, which ops there are and where their user wrote them. The device model's
// verdicts will stand on it.
#pragma once

#include <string>
#include <vector>

#include "report/tile_memory.h"

namespace ipu::report {

// The ops of one kind. Those of a body that runs several times count once.
struct OpsOfKind {
  std::string kind;
  int64_t count = 0, recomputed = 0;
  std::vector<std::pair<std::string, int64_t>>
      lines;  // "model.py:41", most ops first; ops whose line is not known have none
};

struct ProgramReport {
  struct Piece {
    std::string name, type;  // "fc.weight", "f32[2,8]"
    std::string what;        // of a variable its role; of a ring "stash" or "channel from IPU 0"
    int ipu = 0;
    int64_t bytes = 0;
    std::string remote;  // the buffer in streaming memory where a variable lies; "": tiles
  };
  std::vector<IpuMemory> memory;
  int64_t streaming_bytes = 0;
  std::vector<Piece> variables, rings;
  std::vector<OpsOfKind> ops;  // most first, then by name
};

// Errors as tile_memory.
ProgramReport describe(const ir::Module& machine_form);

// `bytes_per_ipu`: what an IPU has, 0: not said. Of variables and of rings the `most` largest, 0: all.
std::string to_text(const ProgramReport& report, int64_t bytes_per_ipu, size_t most = 0);

}  // namespace ipu::report
