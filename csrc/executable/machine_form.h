// The machine form of a program: what the device model, reports and dumps read instead of what this host runs. Ops are
// whole and in plain layouts, planned recomputation is carried out, pipelines are stages and rings, crossings are
// copies. Nothing in it depends on this computer (docs/rationale/machine-form.md).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"
#include "report/tile_memory.h"
#include "target/system.h"

namespace ipu::executable {

// Each part is made once, when first asked for, and stays. Any thread may ask.
class MachineForm {
 public:
  // Makes the form from a compilation: `fork` is the module where the machine's passes begin.
  MachineForm(std::unique_ptr<ir::Module> fork, const target::System& system, passes::Verify verify);
  // Makes the form from a file, which has the text, and the memory unless an earlier version wrote it. `source` is the
  // file, for messages.
  MachineForm(std::string text, std::vector<report::IpuMemory> memory, std::string source);

  // Of a file it is read back from the text: large constants are not known (ir::ParseOptions). Throws
  // Error(kFileCorrupt) if the text is no legal module.
  const ir::Module& module() const;
  // Constants above 256 elements by hash.
  const std::string& text() const;
  const std::vector<report::IpuMemory>& memory() const;
  // No IPU keeps more than so many bytes; known without making the form.
  int64_t most_memory() const { return most_memory_; }

 private:
  const target::System system_ = {};
  const passes::Verify verify_ = passes::Verify::kNever;
  const bool is_read_ = false;  // from a file
  const std::string source_;
  const int64_t most_memory_ = 0;
  mutable std::once_flag made_, printed_, measured_;
  mutable std::unique_ptr<ir::Module> module_;  // until it is made, the fork
  mutable std::string text_;
  mutable std::vector<report::IpuMemory> memory_;
};

}  // namespace ipu::executable
