// A limit for hangs, many times what the work takes: where it takes the square of its time, the process ends and says so.
#pragma once

#include <signal.h>
#include <unistd.h>

namespace ipu {

class HangLimit {
 public:
  explicit HangLimit(unsigned seconds) : before_(::signal(SIGALRM, &end)) { ::alarm(seconds); }
  ~HangLimit() {
    ::alarm(0);
    ::signal(SIGALRM, before_);
  }
  HangLimit(const HangLimit&) = delete;
  HangLimit& operator=(const HangLimit&) = delete;

 private:
  static void end(int) {
    const char text[] = "\nthis test hangs\n";
    (void)!::write(STDERR_FILENO, text, sizeof text - 1);
    ::_exit(1);
  }
  sighandler_t before_;
};

}  // namespace ipu
