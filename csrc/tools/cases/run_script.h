// What a module does, as comments of its text: values the host gives, entry points it runs, values it must
// get. Run by the interpreter here; tests run the same script on the emulator. Numbers are separated by
// spaces and stand for all elements in row-major order, or, when there is one, for each.
//   // SET @w: 1 2        uploads a variable as the host sees it (groups in front, whole values of shards)
//   // FEED @x: 1 2       the next element of a stream, on every replica; "FEED @x of 1: ..." on replica 1
//   // DO: main           runs an entry point
//   // OUT @y: 1 2        the oldest element the program gave, on every replica; "OUT @y of 1: ..."
//   // VAR @w: 1 2        a variable as the host sees it
//   // EMULATOR: runs     or: refuses TEXT, the error of compiling or running it there
// At the end no stream may hold elements that were neither consumed nor expected.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ops/reference_tensor.h"

namespace ipu::cases {

struct ScriptStep {
  enum class Kind : uint8_t { kSet, kFeed, kDo, kOut, kVar } kind;
  std::string name;                // of the variable, stream or entry point
  std::optional<int64_t> replica;  // nullopt: all
  std::vector<double> values;
  size_t line;  // of the text, from 1
};
struct Script {
  std::vector<ScriptStep> steps;
  std::string emulator;  // "runs", "refuses ...", "" when it says nothing
};

// Throws Error(kParse) for a line that begins like a directive and is none.
Script script_of(std::string_view text);

// What is wrong, with the line of the script; empty when all is as expected. Errors of the run are thrown.
std::string run_script(const Script& script, const ir::Module& module);

// `values`, one for all elements allowed, as a tensor of `type`. Throws Error(kParse) when there are too many
// or too few.
ops::ReferenceTensor script_tensor(const ScriptStep& step, const ir::Type& type);
// Empty, or the line and the first element that is not as the step says, up to `tolerance` relative to 1.
std::string script_difference(const ScriptStep& step, const ops::ReferenceTensor& actual, double tolerance);

}  // namespace ipu::cases
