#include "passes/host_limits.h"

#include <unistd.h>

#include <cstdlib>

#include "support/error.h"

namespace ipu::passes {

int64_t host_memory() {
  const char* text = std::getenv("POPTORCH_HOST_MEMORY");
  if (text == nullptr || *text == '\0') return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  char* end = nullptr;
  const double bytes = std::strtod(text, &end);
  if (*end != '\0' || !(bytes >= 0) || bytes > 0x1p62)
    throw Error(ErrorCode::kEnvironment,
                "POPTORCH_HOST_MEMORY is not understood: '" + std::string(text) + "' is no number of bytes.");
  return static_cast<int64_t>(bytes);
}

std::optional<bool> recomputation_wanted() {
  const char* text = std::getenv("POPTORCH_EXECUTE_RECOMPUTE");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string value = text;
  if (value != "0" && value != "1")
    throw Error(ErrorCode::kEnvironment,
                "POPTORCH_EXECUTE_RECOMPUTE is not understood: '" + value + "' is neither 0 nor 1.");
  return value == "1";
}

std::string host_limits_text() {
  const std::optional<bool> wanted = recomputation_wanted();
  if (wanted) return *wanted ? "recomputation executed" : "recomputation not executed";
  return "recomputation above " + std::to_string(host_memory()) + " bytes";
}

}  // namespace ipu::passes
