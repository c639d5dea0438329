#include "support/log.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "support/error.h"
#include "support/fork.h"

namespace ipu {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kWarn}, backend_level{LogLevel::kWarn};

struct Destination {
  ForkSafe<std::mutex> mutex;
  std::FILE* file = stderr;
  bool owned = false;
  uint64_t max_repeats = std::numeric_limits<uint64_t>::max();
  std::string last;
  LogLevel last_level = LogLevel::kOff;
  uint64_t repeats = 0;  // how often `last` was logged in a row
};

// Never destroyed: logging may happen while the process exits.
Destination& destination() {
  static auto* d = new Destination;
  return *d;
}

struct LevelText {
  const char *name, *colour;
};
LevelText text_of(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return {"trace", "\033[37m"};
    case LogLevel::kDebug:
      return {"debug", "\033[36m"};
    case LogLevel::kInfo:
      return {"info", "\033[32m"};
    case LogLevel::kWarn:
      return {"warning", "\033[33m"};
    default:
      return {"error", "\033[31m"};
  }
}

void write_line(Destination& d, LogLevel level, std::string_view message) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm local;
  localtime_r(&now.tv_sec, &local);
  const bool coloured = !d.owned && isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  const LevelText text = text_of(level);
  std::string line = fmt::format("[{:02}:{:02}:{:02}.{:03}] [poptorch:cpp] [{}{}{}] ", local.tm_hour,
                                 local.tm_min, local.tm_sec, now.tv_nsec / 1'000'000,
                                 coloured ? text.colour : "", text.name, coloured ? "\033[0m" : "");
  line.append(message).push_back('\n');
  std::fwrite(line.data(), 1, line.size(), d.file);
  std::fflush(d.file);
}

// Says what was left out before something else is written.
void close_repeats(Destination& d) {
  if (d.repeats > d.max_repeats)
    write_line(d, d.last_level,
               fmt::format("(the line above was repeated {} more times)", d.repeats - d.max_repeats));
  d.repeats = 1;
}

}  // namespace

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

void set_backend_log_level(LogLevel level) { backend_level.store(level, std::memory_order_relaxed); }
bool backend_log_enabled(LogLevel level) {
  return level >= backend_level.load(std::memory_order_relaxed) && level != LogLevel::kOff;
}

void log_backend(std::string_view channel, LogLevel level, std::string_view message) {
  if (!backend_log_enabled(level)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  constexpr std::string_view kLetters = "TDIWE";
  const std::string line =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z popart:{} {}.{} {}: {}\n", utc.tm_year + 1900,
                  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1'000,
                  channel, ::getpid(), ::gettid(), kLetters[static_cast<size_t>(level)], message);
  Destination& d = destination();
  std::lock_guard lock(d.mutex);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void set_log_destination(const std::string& name) {
  std::FILE* file = name == "stdout" ? stdout : stderr;
  const bool owned = !name.empty() && name != "stderr" && name != "stdout";
  if (owned) file = std::fopen(name.c_str(), "a");
  if (file == nullptr)
    throw Error(ErrorCode::kEnvironment,
                fmt::format("cannot write the log: '{}': {}. "
                            "POPTORCH_LOG_DEST is stderr, stdout or the name of a file",
                            name, std::strerror(errno)));
  Destination& d = destination();
  std::lock_guard lock(d.mutex);
  if (d.owned) std::fclose(d.file);
  d.file = file;
  d.owned = owned;
}

void set_max_repeat_logs(uint64_t count) {
  Destination& d = destination();
  std::lock_guard lock(d.mutex);
  count = std::max<uint64_t>(count, 1);
  if (count == d.max_repeats) return;
  close_repeats(d);  // another limit begins another count
  d.last.clear();
  d.last_level = LogLevel::kOff;
  d.max_repeats = count;
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  Destination& d = destination();
  std::lock_guard lock(d.mutex);
  if (level == d.last_level && message == d.last) {
    if (++d.repeats > d.max_repeats) return;
  } else {
    close_repeats(d);
    d.last = message;
    d.last_level = level;
  }
  write_line(d, level, message);
}

}  // namespace ipu
