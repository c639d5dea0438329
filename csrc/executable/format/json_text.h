// JSON text from strangers: bounded depth, an Error instead of the library's exceptions.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace ipu::executable {

// Throws Error(kFileCorrupt) naming the place. Arrays and objects nest at most `max_depth` deep; the memory
// and time used are proportional to the text.
nlohmann::json parse_json(std::string_view text, int max_depth);

}  // namespace ipu::executable
