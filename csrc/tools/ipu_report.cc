// ipu-report: what a compiled program is on the machine, as text. No torch, no device. `ipu-report --help` says how.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "executable/report_file.h"
#include "support/error.h"

using namespace ipu;

int main(int argc, char** argv) {
  CLI::App app(
      "What a compiled program is on the machine: whether it fits, how long a run takes and why, what lies in which memory.",
      "ipu-report");
  std::string file, system = "pod16";
  report::Request request{.replicas = 0};
  bool as_json = false;
  app.add_option(
         "FILE", file,
         "An executable, or a machine form as text (ipu-opt --pipeline=machine-form prints one); \"-\" reads "
         "a text from standard input")
      ->required()
      ->type_name("");
  app.add_option("--system", system, "The system that runs it: its name, or the path of a machine file")
      ->type_name("NAME|PATH")
      ->capture_default_str();
  app.add_option("--replicas", request.replicas,
                 "Replicas of the program; default: those it was compiled for")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--json", as_json, "As JSON (docs/report-schema.md)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    const executable::ReportTexts texts = executable::report_on_file(file, system, request);
    std::cout << (as_json ? texts.json : texts.text);
  } catch (const Error& error) {
    std::cerr << error.message() << "\n";
    return 1;
  }
  return 0;
}
