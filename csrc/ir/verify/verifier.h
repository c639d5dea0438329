// What a legal module is. Structural rules only; the rules of each op are checked by ops/verify.h, which
// calls this.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

// kRead: functional, but a constant may be the text of its hash (ParseOptions); such a module is for reading alone.
enum class Form : uint8_t { kAuthored, kFunctional, kRead };

struct Violation {
  std::string graph, op;  // names; op is its text
  std::string what;
};

// All violations, in order of the text: definition before use, types of call sites against callees, tables
// that exist, entry-only access to variables, recursion between graphs, order edges without cycles, names.
std::vector<Violation> find_violations(const Module& module, Form form);

// "invalid IR: 2 violations." and each with its graph and op.
std::string describe(const std::vector<Violation>& violations);

// Throws Error(kInvalidIr) listing all of them.
void verify(const Module& module, Form form);

}  // namespace ipu::ir
