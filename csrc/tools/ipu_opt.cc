// ipu-opt: runs passes on modules as text, and checks the `.ir` tests. No torch, no device.
//   ipu-opt --passes=cse,dce FILE      prints the module after the passes ("-" reads standard input)
//   ipu-opt --pipeline=default FILE    the same with a named pipeline
//   ipu-opt --patterns=LEVEL[,NAME=off] FILE   the default pipeline as PopART's pattern switches leave it
//   ipu-opt --list                     passes, pipelines and PopART's patterns
//   ipu-opt --test FILES...            checks test files (tools/cases/text_case.h): for each case one line,
//                                      "PASS file: case" or "FAIL file: case: why"
//   ipu-opt --results FILE             prints what each case of a test file gives (scripts/update_checks.py)
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "ir/text/text.h"
#include "passes/pass.h"
#include "passes/popart_patterns.h"
#include "support/error.h"
#include "target/system.h"
#include "tools/cases/text_case.h"

namespace {

using ipu::Error;
using namespace ipu::passes;
using namespace ipu::cases;

constexpr const char* kUsage =
    "usage: ipu-opt [--system=NAME] --passes=A,B | --pipeline=NAME | --patterns=LEVEL FILE\n"
    "       ipu-opt --list\n"
    "       ipu-opt [--system=NAME] --test FILES...\n"
    "       ipu-opt [--system=NAME] --results FILE\n";

std::string read(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ipu::ErrorCode::kFileCorrupt, "file not read: " + path + " cannot be opened.");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int list() {
  std::cout << "passes:\n";
  for (const PassInfo* pass : all_passes()) {
    std::cout << "  " << pass->name << std::string(pass->name.size() < 26 ? 26 - pass->name.size() : 1, ' ')
              << pass->summary << "\n";
    for (const std::string& count : pass->counts)
      std::cout << std::string(28, ' ') << "counts: " << count << "\n";
  }
  std::cout << "pipelines:\n";
  for (const auto& [name, steps] : named_pipelines()) {
    std::cout << "  " << name << ":";
    for (const std::string& step : steps) std::cout << " " << step;
    std::cout << "\n";
  }
  std::cout << "patterns of PopART:\n";
  static constexpr const char* kStates[] = {"mandatory", "enabled", "off", "control"};
  for (const Pattern& pattern : popart_patterns())
    std::cout << "  " << pattern.name << " (" << kStates[static_cast<int>(pattern.state)]
              << "): " << (pattern.pass.empty() ? "" : "pass " + std::string(pattern.pass) + ": ")
              << pattern.here << "\n";
  return 0;
}

int test(const std::vector<std::string>& files, const PassContext& context) {
  int failures = 0;
  auto fail = [&](const std::string& what, const std::string& why) {
    std::cout << "FAIL " << what << "\n  " << why << (why.ends_with("\n") ? "" : "\n");
    ++failures;
  };
  for (const std::string& file : files) {
    try {
      for (const TextCase& one : split_cases(read(file), file)) {
        CaseResult result = run_case(one, context);
        if (result.failure.empty())
          std::cout << "PASS " << file << ": " << one.name << "\n";
        else
          fail(file + ": " + one.name, result.failure);
      }
    } catch (const Error& error) {
      fail(file + ": the file", error.message());
    }
  }
  return failures == 0 ? 0 : 1;
}

int results(const std::string& file, const PassContext& context) {
  for (const TextCase& one : split_cases(read(file), file)) {
    CaseResult result = run_case(one, context);
    std::cout << "// ==== " << one.name << "\n"
              << (result.output.empty() ? "// " + result.failure : result.output);
  }
  return 0;
}

int optimize(const std::vector<std::string>& steps, const std::string& file, PassContext context) {
  std::unique_ptr<ipu::ir::Module> module = ipu::ir::parse(read(file), file);
  Statistics statistics = run_pipeline(*module, steps, context, /*verify=*/true);
  std::cout << ipu::ir::print(*module);
  for (const auto& [what, n] : statistics.counts) std::cerr << what << ": " << n << "\n";
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  PassContext context;
  context.system = &ipu::target::find_system("pod16");
  std::vector<std::string> files;
  std::string mode;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--system="))
      context.system = &ipu::target::find_system(argument.substr(9));
    else if (argument.starts_with("--") && mode.empty())
      mode = argument;
    else
      files.push_back(argument);
  }
  if (mode == "--list" && files.empty()) return list();
  if (mode == "--test" && !files.empty()) return test(files, context);
  if (mode == "--results" && files.size() == 1) return results(files[0], context);
  if ((mode.starts_with("--passes=") || mode.starts_with("--pipeline=") || mode.starts_with("--patterns=")) &&
      files.size() == 1)
    return optimize(steps_of(mode), files[0], context);
  std::cerr << kUsage;
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const Error& error) {
    std::cerr << error.message() << "\n";
    return 1;
  }
}
