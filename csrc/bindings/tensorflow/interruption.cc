#include "bindings/tensorflow/interruption.h"

#include <csignal>
#include <mutex>

namespace ipu::tensorflow {
namespace {

std::atomic<uint32_t> interrupts{0};
std::atomic<int> runs{0};        // that live
std::atomic<bool> taken{false};  // one of them is being ended
struct sigaction previous;

void handle(int number, siginfo_t* info, void* context) {
  if (runs > 0 && !taken.exchange(true)) {
    ++interrupts;
    return;
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_IGN && previous.sa_handler != SIG_DFL) {
    previous.sa_handler(number);
  }
}

// Only where somebody handles the signal already (Python does): else it ends the process, as it should. Asked at each run,
// since a program may set a handler of its own at any time.
void watch() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool has_function = (now.sa_flags & SA_SIGINFO) != 0;
  if (has_function && now.sa_sigaction == handle) return;
  if (!has_function && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  previous = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = handle;
  sigaction(SIGINT, &now, nullptr);
}

}  // namespace

Interruption::Interruption() : before_(interrupts) {
  watch();
  ++runs;
}

bool Interruption::is_raised() const { return interrupts != before_; }

void Interruption::end(bool was_run_ended) {
  if (--runs == 0 && taken.exchange(false) && !was_run_ended) ::raise(SIGINT);
}

}  // namespace ipu::tensorflow
