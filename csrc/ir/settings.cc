#include "ir/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
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

bool LocationData::operator==(const LocationData& other) const {
  return file == other.file && line == other.line && module_path == other.module_path &&
         std::equal(joined.begin(), joined.end(), other.joined.begin(), other.joined.end(),
                    [](const Location& a, const Location& b) { return *a == *b; });
}

Location join(const Location& main, std::span<const Location> others) {
  std::set<std::tuple<std::string_view, int, std::string_view>> seen;
  auto result = std::make_shared<LocationData>();
  const auto add = [&](const Location& place) {
    if (!seen.emplace(place->file, place->line, place->module_path).second) return;
    result->joined.push_back(place->joined.empty() ? place
                                                   : std::make_shared<const LocationData>(LocationData{
                                                         place->file, place->line, place->module_path}));
  };
  const auto add_all = [&](const Location& location) {
    if (location == nullptr) return;
    add(location);
    for (const Location& place : location->joined) add(place);
  };
  add_all(main);
  for (const Location& location : others) add_all(location);
  if (result->joined.size() < 2) return result->joined.empty() ? nullptr : result->joined[0];
  const Location first = result->joined[0];
  result->joined.erase(result->joined.begin());
  result->file = first->file, result->line = first->line, result->module_path = first->module_path;
  return result;
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
