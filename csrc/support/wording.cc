#include "support/wording.h"

#include <fmt/args.h>
#include <fmt/core.h>

#include <algorithm>

namespace ipu {
namespace {

std::string filled(std::string_view text, const Error::Parameters& parameters, const std::string& raised) {
  fmt::dynamic_format_arg_store<fmt::format_context> fields;
  for (const auto& [name, value] : parameters)
    std::visit([&](const auto& v) { fields.push_back(fmt::arg(name.c_str(), v)); }, value);
  fields.push_back(fmt::arg("text", raised));
  return fmt::vformat(text, fields);
}

}  // namespace

Error worded(ErrorCode code, std::string reason, std::string_view text, Error::Parameters parameters,
             std::string type) {
  Error error(code, filled(text, parameters, ""), std::move(type));
  error.because(std::move(reason), std::move(parameters));
  return error;
}

Error reworded(Error error, std::span<const Wording> rows) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Wording& r) { return r.reason == error.reason(); });
  if (row != rows.end()) error.reword(filled(row->text, error.parameters(), error.text()));
  return error;
}

}  // namespace ipu
