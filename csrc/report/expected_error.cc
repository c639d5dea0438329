#include "report/expected_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/structure.h"

namespace ipu::report {
namespace {

constexpr auto kErrors = std::to_array<ExpectedError>({
#include "report/expected_errors.inc"
});

}  // namespace

const ExpectedError* expected_error(std::string_view figure) {
  const auto* found = std::ranges::find(kErrors, figure, &ExpectedError::figure);
  return found == kErrors.end() ? nullptr : found;
}

std::string describe_error(std::string_view figure) {
  const ExpectedError* error = expected_error(figure);
  if (error == nullptr) return "not validated";
  return fmt::format("half within {:.1f} %, nine of ten within {:.1f} % of {} measurements ({})", error->half,
                     error->most, error->measurements, error->kind);
}

std::string short_error(std::string_view figure) {
  const ExpectedError* error = expected_error(figure);
  if (error == nullptr) return "not validated";
  return fmt::format("{:.0f} / {:.0f} %{}", error->half, error->most, error->is_of_its_own ? "*" : "");
}

std::string_view figure_of_run(const ir::Module& module) {
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      if (!op->is(ir::kind::kVariableAssign)) continue;
      const ir::Variable* variable = module.find_variable(op->attributes.symbol("variable").name);
      if (variable != nullptr && variable->role == "parameter") return "training";
    }
  return "inference";
}

}  // namespace ipu::report
