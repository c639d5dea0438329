// The native log: levels and line format of the published documentation, one destination per process
// (POPTORCH_LOG_DEST). Building a message is the caller's cost: ask log_enabled() first where it is large.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ipu {

enum class LogLevel : int { kTrace = 0, kDebug = 1, kInfo = 2, kWarn = 3, kError = 4, kOff = 6 };

// Process-wide; warnings and errors by default.
void set_log_level(LogLevel level);
LogLevel log_level();
inline bool log_enabled(LogLevel level) { return level >= log_level() && level != LogLevel::kOff; }

// "stderr" (also ""), "stdout", or a file that is appended to. Error(kEnvironment) when it cannot be written.
void set_log_destination(const std::string& destination);

// Sets how many of identical consecutive lines are written (at least one). The line that follows says how many were
// left out.
void set_max_repeat_logs(uint64_t count);

// The log of what stands for PopTorch's back end has a level of its own, and goes to standard error.
void set_backend_log_level(LogLevel level);
bool backend_log_enabled(LogLevel level);
// Writes `<time>Z popart:<channel> <pid>.<tid> <L>: message` when the level is enabled; L is one of T, D, I, W, E.
// Thread-safe.
void log_backend(std::string_view channel, LogLevel level, std::string_view message);

// Writes `[HH:MM:SS.mmm] [poptorch:cpp] [level] message` when the level is enabled. Thread-safe.
void log(LogLevel level, std::string_view message);

}  // namespace ipu
