// The IR of a program, in the authored form: what a session compiles. The program stays as it is.
#pragma once

#include <memory>

#include "frontends/popxl/program.h"
#include "ir/module.h"

namespace ipu::popxl {

// Unreached graphs and unused variables are left out. Error(kInvalidIr) for graphs that call themselves, cycles of
// ordering edges, inputs that are not connected; Error(kTypeMismatch) for types the device does not have.
std::unique_ptr<ir::Module> to_module(const Program& program);

}  // namespace ipu::popxl
