// ipu-report: what a compiled program is on the machine, as text. No torch, no device. `ipu-report --help` says how.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "executable/file.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "report/program_report.h"
#include "support/error.h"
#include "target/system.h"

namespace {

using namespace ipu;

// An executable begins with the length of its header in 8 bytes: 0 is among them, and never in a text. What cannot be
// opened is for the reader of executables to refuse.
bool is_executable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(8, ' ');
  file.read(begin.data(), 8);
  return !file.is_open() || begin.find('\0') != std::string::npos;
}

report::ProgramReport report_on(const std::string& path) {
  if (path != "-" && is_executable(path))
    return report::describe(
        executable::read_executable(executable::Container::read(path)).machine().module());
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::unique_ptr<ir::Module> module = ir::parse(text, path, {.hashed_constants = true});
  ops::verify(*module, ir::Form::kRead);
  return report::describe(*module);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "What a compiled program is on the machine: its IPUs, what lies in which memory, its operations.",
      "ipu-report");
  std::string file, system = "pod16";
  app.add_option(
         "FILE", file,
         "An executable, or a machine form as text (ipu-opt --pipeline=machine-form prints one); \"-\" reads "
         "a text from standard input")
      ->required()
      ->type_name("");
  app.add_option("--system", system, "The system whose tiles are to hold it")
      ->type_name("NAME")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    std::cout << report::to_text(report_on(file), target::find_system(system).bytes_per_ipu());
  } catch (const Error& error) {
    std::cerr << error.message() << "\n";
    return 1;
  }
  return 0;
}
