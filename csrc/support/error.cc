#include "support/error.h"

#include <fmt/core.h>

#include <cstring>

namespace ipu {
namespace {
thread_local std::vector<std::string> active_context;

std::string with_code(ErrorCode code, const std::string& message) {
  std::string tag = fmt::format(" [IPU-E{}]", static_cast<int>(code));
  size_t end = message.find_first_of(":.\n");
  if (end == std::string::npos) return message + tag;
  return message.substr(0, end) + tag + message.substr(end);
}
}  // namespace

Error::Error(ErrorCode code, std::string text, std::string type)
    : code_(code),
      text_(std::move(text)),
      message_(with_code(code, text_)),
      type_(std::move(type)),
      context_(active_context.rbegin(), active_context.rend()) {}

Error& Error::reword(std::string text) {
  text_ = std::move(text);
  message_ = with_code(code_, text_);
  return *this;
}

ErrorContext::ErrorContext(std::string activity) { active_context.push_back(std::move(activity)); }
ErrorContext::~ErrorContext() { active_context.pop_back(); }

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
  const char* name = std::strrchr(file, '/');
  throw Error(ErrorCode::kInternal, fmt::format("internal error: {} does not hold at {}:{}. {}\n"
                                                "  Please report it with a dump made by IPU_DUMP=all.",
                                                condition, name ? name + 1 : file, line, detail));
}

}  // namespace ipu
