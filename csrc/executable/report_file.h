// Reports on executables, compiled or in files, and on machine forms as text.
#pragma once

#include <string>

#include "executable/compile.h"
#include "report/report.h"

namespace ipu::executable {

// What a report says (report/report.h), for people and for programs.
struct ReportTexts {
  std::string text, json;
};

// Replicas of the request that are 0 are those of the program, or that the module says. Error(kFileVersion) as Executable::machine.
ReportTexts report_on(const Executable& executable, const target::Machine& machine, report::Request request);

// The same of a file with an executable or a machine form as text, "-" is a text on standard input. `machine`: a name or a path,
// "" for the attached system; Error(kEnvironment) for an unknown one. Errors of Container::read, read_executable and ir::parse name the file.
ReportTexts report_on_file(const std::string& path, const std::string& machine, report::Request request);

}  // namespace ipu::executable
