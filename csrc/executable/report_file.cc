#include "executable/report_file.h"

#include <fstream>
#include <iterator>

#include "executable/file.h"
#include "ir/replicas.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "target/known_machine.h"

namespace ipu::executable {
namespace {

// An executable begins with the length of its header in 8 bytes: 0 is among them, and never in a text. What cannot be
// opened is for the reader of executables to refuse.
bool is_executable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(8, ' ');
  file.read(begin.data(), 8);
  return !file.is_open() || begin.find('\0') != std::string::npos;
}

ReportTexts report_on_module(const ir::Module& module, const target::Machine& machine,
                             report::Request request) {
  if (request.replicas == 0) request.replicas = ir::replica_count(module);
  const report::Report report = report::make_report(module, machine, request);
  return {report::to_text(report), report::to_json(report)};
}

}  // namespace

ReportTexts report_on(const Executable& executable, const target::Machine& machine, report::Request request) {
  if (request.replicas == 0 && executable.program != nullptr)
    request.replicas = executable.program->job_replicas();
  return report_on_module(executable.machine().module(), machine, request);
}

ReportTexts report_on_file(const std::string& path, const std::string& machine, report::Request request) {
  const target::Machine& known = target::known_machine(machine);
  if (path != "-" && is_executable(path))
    return report_on(read_executable(Container::read(path)), known, request);
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::unique_ptr<ir::Module> module = ir::parse(text, path, {.hashed_constants = true});
  ops::verify(*module, ir::Form::kRead);
  return report_on_module(*module, known, request);
}

}  // namespace ipu::executable
