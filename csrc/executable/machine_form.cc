#include "executable/machine_form.h"

#include "executable/compile.h"
#include "support/error.h"

namespace ipu::executable {

MachineForm::MachineForm(std::unique_ptr<const ir::Module> fork, const target::System& system,
                         passes::Verify verify)
    : fork_(std::move(fork)), system_(system), verify_(verify) {}

MachineForm::MachineForm(std::string text)
    : fork_(nullptr), system_(), verify_(passes::Verify::kNever), text_(std::move(text)) {}

std::unique_ptr<ir::Module> MachineForm::module() const {
  if (fork_ == nullptr) return nullptr;
  passes::PassContext context;
  context.system = &system_;
  return passes::run_fork("machine", *fork_, context, verify_);
}

const std::string& MachineForm::text() const {
  std::call_once(printed_, [&] {
    if (fork_ != nullptr) text_ = print_for_reading(*module());
  });
  return text_;
}

const std::string& Executable::machine_text() const {
  static const std::string none;
  if (machine_form != nullptr) return machine_form->text();
  if (program == nullptr) return none;
  throw Error(
      ErrorCode::kFileVersion,
      "no machine form: the executable was compiled by another pipeline than 'default', or is of a file "
      "that an earlier version wrote.\n"
      "  try:      compile and save again with this version.");
}

}  // namespace ipu::executable
