#include "executable/json_text.h"

#include "support/error.h"

namespace ipu::executable {

nlohmann::json parse_json(std::string_view text, int max_depth) {
  using Event = nlohmann::json::parse_event_t;
  auto guard = [&](int depth, Event event, nlohmann::json&) {
    if ((event == Event::object_start || event == Event::array_start) && depth >= max_depth)
      throw Error(ErrorCode::kFileCorrupt,
                  "corrupt JSON: nested deeper than " + std::to_string(max_depth) + " levels");
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), guard);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kFileCorrupt, std::string("corrupt JSON: ") + error.what());
  }
}

}  // namespace ipu::executable
