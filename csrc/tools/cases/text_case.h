// Text tests of passes: an `.ir` file holds a RUN line and cases separated by "// ---"; a case is a piece of
// IR whose comments say what must come out (CONTRIBUTING.md, "add a pass"). Used by `ipu-opt --test`.
//
//   // RUN: ipu-opt --passes=cse,dce   in a file's first case: for all cases; in another one: for that case
//   // RUN: ipu-report                  what comes out is the report of the case as it stands
//   // CHECK: text         somewhere after the last match
//   // CHECK-NEXT: text    on the line after the last match
//   // CHECK-SAME: text    after the last match, on its line
//   // CHECK-NOT: text     nowhere between the last match and the next one (or the end)
//   // CHECK-ERROR: text   the passes refuse the case with a message that holds the text
// A case may also say what it computes (SET, FEED, DO, OUT, VAR: tools/cases/run_script.h); the interpreter runs it
// before and after the passes.
// Runs of spaces count as one. Each case is verified before and after each pass, and each pass runs twice:
// the second run must find nothing to do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace ipu::cases {

using passes::PassContext;

struct TextCase {
  std::string name = {};  // of the first graph; "case 3" without one
  std::vector<std::string> steps = {};
  bool is_report = false;  // and no steps
  std::string text = {};
};

struct CaseResult {
  std::string output;   // the module after the passes, or its report
  std::string failure;  // empty: as expected
};

// Throws Error(kParse) when the file has no RUN line or a directive is misspelt.
std::vector<TextCase> split_cases(std::string_view text, std::string_view source_name);
CaseResult run_case(const TextCase& test, const PassContext& context);

// The part of run_case that compares: empty when `output` meets the directives in `text`.
std::string check_expectations(std::string_view text, std::string_view output);

// "--passes=a,b", "--pipeline=default" or "--patterns=Minimal" (the default pipeline under PopART's switches)
// as steps. Throws Error(kInvalidIr) for an unknown pass, pipeline or pattern.
std::vector<std::string> steps_of(std::string_view option);

}  // namespace ipu::cases
