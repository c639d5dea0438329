#include "passes/host_limits.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/error.h"

namespace ipu::passes {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int64_t host_memory() {
  const std::string text = variable("POPTORCH_HOST_MEMORY");
  if (text.empty()) return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  char* end = nullptr;
  const double bytes = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(bytes >= 0) || bytes > 0x1p62)
    throw Error(ErrorCode::kEnvironment,
                fmt::format("POPTORCH_HOST_MEMORY is not understood: '{}' is no number of bytes.", text));
  return static_cast<int64_t>(bytes);
}

}  // namespace

HostLimits HostLimits::from_environment() {
  HostLimits limits;
  const std::string wish = variable("POPTORCH_EXECUTE_RECOMPUTE");
  if (wish.empty())
    limits.memory = host_memory();
  else if (wish == "1")
    limits.recomputation = HostRecomputation::kAlways;
  else if (wish == "0")
    limits.recomputation = HostRecomputation::kNever;
  else
    throw Error(ErrorCode::kEnvironment,
                fmt::format("POPTORCH_EXECUTE_RECOMPUTE is not understood: '{}' is neither 0 nor 1.", wish));
  return limits;
}

}  // namespace ipu::passes
