// ipu-opt: runs passes on modules as text, and checks the `.ir` tests. No torch, no device.
// `ipu-opt --help` says how; scripts/update_checks.py reads what --test and --results print.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
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

std::string read(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ipu::ErrorCode::kFileCorrupt, fmt::format("file not read: {} cannot be opened.", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int list() {
  std::cout << "passes:\n";
  for (const PassInfo* pass : all_passes()) {
    std::cout << fmt::format("  {:<25} {}\n", pass->name, pass->summary);
    for (const std::string& count : pass->counts) std::cout << fmt::format("{:28}counts: {}\n", "", count);
  }
  std::cout << "pipelines:\n";
  for (const auto& [name, steps] : named_pipelines()) {
    std::cout << "  " << name << ":";
    for (size_t i = 0; i < steps.size(); ++i) std::cout << (i == 0 ? " " : ", ") << steps[i];
    std::cout << "\n";
  }
  std::cout << "patterns of PopART:\n";
  static constexpr const char* kStates[] = {"mandatory", "enabled", "off", "control"};
  for (const Pattern& pattern : popart_patterns())
    std::cout << fmt::format("  {} ({}): {}{}\n", pattern.name, kStates[static_cast<int>(pattern.state)],
                             pattern.pass.empty() ? "" : fmt::format("pass {}: ", pattern.pass),
                             pattern.here);
  return 0;
}

int test(const std::vector<std::string>& files, const PassContext& context) {
  int failures = 0;
  auto fail = [&](const std::string& what, const std::string& why) {
    std::cout << fmt::format("FAIL {}\n  {}{}", what, why, why.ends_with("\n") ? "" : "\n");
    ++failures;
  };
  for (const std::string& file : files) {
    try {
      for (const TextCase& one : split_cases(read(file), file)) {
        CaseResult result = run_case(one, context);
        if (result.failure.empty())
          std::cout << fmt::format("PASS {}: {}\n", file, one.name);
        else
          fail(fmt::format("{}: {}", file, one.name), result.failure);
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
    std::cout << fmt::format("// ==== {}\n{}", one.name,
                             result.output.empty() ? "// " + result.failure : result.output);
  }
  return 0;
}

int optimize(const std::vector<std::string>& steps, const std::string& file, PassContext context) {
  std::unique_ptr<ipu::ir::Module> module = ipu::ir::parse(read(file), file);
  Statistics statistics = run_pipeline(*module, steps, context, Verify::kEachPass);
  std::cout << ipu::ir::print(*module);
  for (const auto& [what, n] : statistics.counts) std::cerr << fmt::format("{}: {}\n", what, n);
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Runs passes on modules as text, and checks the `.ir` tests.", "ipu-opt");
  std::string system = "pod16";
  app.add_option("--system", system, "The emulated system that passes work for")
      ->type_name("NAME")
      ->capture_default_str();
  std::vector<std::string> files;
  CLI::Option* given =
      app.add_option("FILE", files, "Modules as text; \"-\" reads standard input")->type_name("");
  std::string steps = "--passes=";  // as steps_of takes them
  CLI::Option_group* modes =
      app.add_option_group("modes", "One of these; none prints what was understood of FILE");
  modes->require_option(0, 1);
  auto add_steps = [&](const std::string& name, const char* value, const char* help) {
    auto keep = [&steps, name](const std::string& text) { steps = fmt::format("{}={}", name, text); };
    modes->add_option_function<std::string>(name, keep, help)->type_name(value);
  };
  add_steps("--passes", "A,B", "Print FILE after these passes");
  add_steps("--pipeline", "NAME", "Print FILE after a named pipeline");
  add_steps("--patterns", "LEVEL[,NAME=off]",
            "Print FILE after the default pipeline as PopART's pattern switches leave it");
  bool is_list = false, is_test = false, is_results = false;
  modes->add_flag("--list", is_list, "Print passes, pipelines and PopART's patterns")->excludes(given);
  modes->add_flag(
      "--test", is_test,
      "Check the cases of test files, for each one line: \"PASS file: case\" or \"FAIL file: case\"");
  modes->add_flag("--results", is_results, "Print what each case of a test file gives");
  try {
    app.parse(argc, argv);
    if (!is_list && files.empty()) throw CLI::RequiredError("FILE");
    if (!is_test && files.size() > 1) throw CLI::ExtrasError({files.begin() + 1, files.end()});
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  PassContext context;
  context.system = &ipu::target::find_system(system);
  context.host = HostLimits::from_environment();
  if (is_list) return list();
  if (is_test) return test(files, context);
  if (is_results) return results(files[0], context);
  return optimize(steps_of(steps), files[0], context);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::cerr << error.message() << "\n";
    return 1;
  }
}
