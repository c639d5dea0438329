#include "executable/format/json_text.h"

#include <fmt/core.h>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::executable {
namespace {

constexpr size_t kMaxQuoted = 200;

// A pass over the bytes, before anything is made of them: the library's own callbacks for this look for the
// place of each value in its parent again, which takes quadratic time for long lists.
void check_depth(std::string_view text, int max_depth) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i)
          if (text[i] == '\\') ++i;
        break;
      case '{':
      case '[':
        if (++depth > max_depth)
          throw Error(ErrorCode::kFileCorrupt,
                      fmt::format("corrupt JSON: nested deeper than {} levels", max_depth));
        break;
      case '}':
      case ']':
        --depth;
        break;
      default:
        break;
    }
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, int max_depth) {
  check_depth(text, max_depth);
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kFileCorrupt, "corrupt JSON: " + quotation(error.what(), kMaxQuoted));
  }
}

}  // namespace ipu::executable
