#include "bindings/tensorflow/interruption.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace ipu::tensorflow {
namespace {

std::atomic<uint32_t> interrupts{0};
struct sigaction previous;

void count_interrupt(int number, siginfo_t* info, void* context) {
  interrupts.fetch_add(1, std::memory_order_relaxed);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_IGN && previous.sa_handler != SIG_DFL) {
    previous.sa_handler(number);
  }
}

// Only where somebody handles the signal already (Python does): else it ends the process, as it should. Asked at each run,
// since a program may set a handler of its own at any time.
void watch() {
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool has_function = (now.sa_flags & SA_SIGINFO) != 0;
  if (has_function && now.sa_sigaction == count_interrupt) return;
  if (!has_function && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
  previous = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = count_interrupt;
  sigaction(SIGINT, &now, nullptr);
}

}  // namespace

std::function<bool()> Interruption::since_now() {
  static std::mutex mutex;
  {
    std::lock_guard lock(mutex);
    watch();
  }
  return [before = interrupts.load(std::memory_order_relaxed)] {
    return interrupts.load(std::memory_order_relaxed) != before;
  };
}

}  // namespace ipu::tensorflow
