// The machine form of a program: what the device model, reports and dumps read instead of what this host runs. Ops are
// whole and in plain layouts, planned recomputation is carried out, pipelines are stages and rings, crossings are
// copies. Nothing in it depends on this computer (docs/rationale/machine-form.md).
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ir/module.h"
#include "passes/pass.h"
#include "target/system.h"

namespace ipu::executable {

// Made when first asked for. Any thread may ask.
class MachineForm {
 public:
  // Makes the form from a compilation: `fork` is the module where the machine's passes begin.
  MachineForm(std::unique_ptr<const ir::Module> fork, const target::System& system, passes::Verify verify);
  // Makes the form from a file, which has the text alone.
  explicit MachineForm(std::string text);

  // A module of its own for each caller; nullptr for the machine form of a file.
  std::unique_ptr<ir::Module> module() const;
  // Constants above 256 elements by hash.
  const std::string& text() const;

 private:
  const std::unique_ptr<const ir::Module> fork_;
  const target::System system_;
  const passes::Verify verify_;
  mutable std::once_flag printed_;
  mutable std::string text_;
};

}  // namespace ipu::executable
