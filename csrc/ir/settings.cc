#include "ir/settings.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace ipu::ir {
namespace {
constexpr std::array<std::pair<Context, std::string_view>, 4> kContexts{{
    {Context::kForward, "forward"},
    {Context::kBackward, "backward"},
    {Context::kAccumulateOuter, "accumulate_outer"},
    {Context::kWeightTransfer, "weight_transfer"},
}};
}  // namespace

std::string_view to_string(Context context) { return kContexts[static_cast<size_t>(context)].second; }

std::optional<Context> context_from_string(std::string_view text) {
  for (const auto& [context, name] : kContexts)
    if (name == text) return context;
  return std::nullopt;
}

std::string user_line(const Location& location) {
  if (!location || location->file.empty()) return "";
  return fmt::format("{}:{}", location->file, location->line);
}

std::string to_string(const Location& location) {
  if (!location || (location->file.empty() && location->module_path.empty())) return "<unknown>";
  std::string text = user_line(location);
  if (!location->module_path.empty())
    text += fmt::format("{}[{}]", text.empty() ? "" : " ", location->module_path);
  return text;
}

}  // namespace ipu::ir
