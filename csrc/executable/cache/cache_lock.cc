#include "executable/cache/cache_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/error.h"
#include "support/log.h"

namespace ipu::executable {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);

void warn(const std::string& path, const std::string& why) {
  log(LogLevel::kWarn, fmt::format("executable cache: no lock on {}: {}", path, why));
}

}  // namespace

// Neither a link nor a pipe, and nobody else's: others could hold their own for ever.
bool EntryLock::open() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file_ < 0) {
    const int error = errno;
    struct stat there;
    if (::lstat(path_.c_str(), &there) != 0)
      throw Error(ErrorCode::kFileAccess,
                  fmt::format("cannot write file: {}: {}.", path_, std::strerror(error)));
    warn(path_, std::strerror(error));
    return false;
  }
  struct stat held;
  if (::fstat(file_, &held) == 0 && S_ISREG(held.st_mode) && held.st_uid == ::geteuid()) return true;
  warn(path_, "not a regular file of this user");
  close();
  return false;
}

void EntryLock::close() {
  ::close(file_);
  file_ = -1;
}

// The previous owner removes the file: only a lock on the file that is there now counts.
bool EntryLock::is_current() const {
  struct stat held, there;
  return ::fstat(file_, &held) == 0 && ::lstat(path_.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
         held.st_dev == there.st_dev;
}

EntryLock::EntryLock(std::string path, const std::function<bool()>& interrupted) : path_(std::move(path)) {
  for (bool told = false;;) {
    if (!open()) return;
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        warn(path_, std::strerror(errno));
        close();
        return;
      }
      if (!told)
        log(LogLevel::kInfo, "executable cache: waiting for another process to compile this program");
      told = true;
      if (interrupted && interrupted()) {
        close();
        throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for another process to compile");
      }
      std::this_thread::sleep_for(kPoll);
    }
    if (is_current()) return;
    close();
  }
}

EntryLock::~EntryLock() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  close();
}

}  // namespace ipu::executable
