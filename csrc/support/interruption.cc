#include "support/interruption.h"

#include <time.h>

#include <utility>

#include "support/error.h"

namespace ipu {
namespace {
thread_local Interruptible* current = nullptr;
}  // namespace

int64_t coarse_now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

Interruptible::Interruptible(std::function<bool()> wanted)
    : wanted_(std::move(wanted)), next_ns_(coarse_now_ns() + kInterruptionInterval), outer_(current) {
  current = this;
}

Interruptible::~Interruptible() { current = outer_; }

void poll_interruption() {
  Interruptible* scope = current;
  if (scope == nullptr || !scope->wanted_) return;
  const int64_t now = coarse_now_ns();
  if (now < scope->next_ns_) return;
  scope->next_ns_ = now + kInterruptionInterval;
  if (scope->wanted_()) throw Error(ErrorCode::kInterrupted, "interrupted: while compiling");
}

}  // namespace ipu
