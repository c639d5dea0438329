// The machine form of a module that nobody compiled, and what it says of the operators of the model: for listings,
// which tell the user's operators by their first results (ir/node_marks.h).
#pragma once

#include <memory>
#include <set>
#include <string>

#include "ir/module.h"
#include "target/system.h"

namespace ipu::executable {

// What MachineForm::module() of the compiled module would be.
std::unique_ptr<ir::Module> machine_form_of(std::unique_ptr<ir::Module> module, const target::System& system);

struct RecomputedOperators {
  std::set<std::string> marked;    // whose results are not kept for the backward pass
  std::set<std::string> repeated;  // of these, what the backward pass needs and makes again
};
RecomputedOperators recomputed_operators(const ir::Module& machine);

}  // namespace ipu::executable
