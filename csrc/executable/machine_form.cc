#include "executable/machine_form.h"

#include <fmt/core.h>

#include <algorithm>

#include "executable/compile.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::executable {
namespace {

std::unique_ptr<ir::Module> read_back(const std::string& text, const std::string& source) {
  try {
    std::unique_ptr<ir::Module> module = ir::parse(text, "machine", {.hashed_constants = true});
    ops::verify(*module, ir::Form::kRead);
    return module;
  } catch (const Error& error) {
    throw Error(ErrorCode::kFileCorrupt, fmt::format("corrupt file: {}: the machine form: {}.", source,
                                                     quotation(error.message(), 1000)));
  }
}

int64_t most_of(const std::vector<report::IpuMemory>& memory) {
  int64_t most = memory.empty() ? INT64_MAX : 0;
  for (const report::IpuMemory& of : memory) most = std::max(most, of.total());
  return most;
}

}  // namespace

MachineForm::MachineForm(std::unique_ptr<ir::Module> fork, const target::System& system,
                         passes::Verify verify)
    : system_(system), verify_(verify), most_memory_(report::most_memory(*fork)), module_(std::move(fork)) {}

MachineForm::MachineForm(std::string text, std::vector<report::IpuMemory> memory, std::string source)
    : is_read_(true),
      source_(std::move(source)),
      most_memory_(most_of(memory)),
      text_(std::move(text)),
      memory_(std::move(memory)) {}

const ir::Module& MachineForm::module() const {
  std::call_once(made_, [&] {
    if (is_read_) {
      module_ = read_back(text_, source_);
      return;
    }
    passes::PassContext context;
    context.system = &system_;
    passes::run_fork("machine", *module_, context, verify_);
  });
  return *module_;
}

const std::string& MachineForm::text() const {
  std::call_once(printed_, [&] {
    if (!is_read_) text_ = print_for_reading(module());
  });
  return text_;
}

const std::vector<report::IpuMemory>& MachineForm::memory() const {
  std::call_once(measured_, [&] {
    if (memory_.empty()) memory_ = report::tile_memory(module());
  });
  return memory_;
}

const MachineForm& Executable::machine() const {
  if (machine_form != nullptr) return *machine_form;
  throw Error(
      ErrorCode::kFileVersion,
      "no machine form: the executable was compiled by another pipeline than 'default', or is of a file "
      "that an earlier version wrote.\n"
      "  try:      compile and save again with this version.");
}

const std::string& Executable::machine_text() const {
  static const std::string none;
  return machine_form == nullptr && program == nullptr ? none : machine().text();
}

}  // namespace ipu::executable
