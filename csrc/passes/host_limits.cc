#include "passes/host_limits.h"

#include <fmt/core.h>
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
                fmt::format("POPTORCH_HOST_MEMORY is not understood: '{}' is no number of bytes.", text));
  return static_cast<int64_t>(bytes);
}

std::optional<bool> recomputation_wanted() {
  const char* text = std::getenv("POPTORCH_EXECUTE_RECOMPUTE");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string value = text;
  if (value != "0" && value != "1")
    throw Error(ErrorCode::kEnvironment,
                fmt::format("POPTORCH_EXECUTE_RECOMPUTE is not understood: '{}' is neither 0 nor 1.", value));
  return value == "1";
}

std::string host_limits_text() {
  const std::optional<bool> wanted = recomputation_wanted();
  if (wanted) return *wanted ? "recomputation executed" : "recomputation not executed";
  return fmt::format("recomputation above {} bytes", host_memory());
}

}  // namespace ipu::passes
