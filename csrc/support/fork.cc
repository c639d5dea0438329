#include "support/fork.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/error.h"

namespace ipu {

uint64_t OwnProcess::current_generation = 0;
void count_fork() { ++OwnProcess::current_generation; }

namespace fork_detail {
namespace {

// Never destroyed: a process may fork while it exits.
struct Known {
  std::mutex mutex;  // of the lists; held while forking
  std::vector<Lock*> locks;
  std::vector<void (*)()> renewals;
};

// All or none, again and again: the order in which other threads nest these mutexes does not matter.
void lock_all(Known& known) {
  known.mutex.lock();
  for (;;) {
    size_t held = 0;
    while (held < known.locks.size() && known.locks[held]->try_lock_for_fork()) ++held;
    if (held == known.locks.size()) return;
    Lock* busy = known.locks[held];
    while (held > 0) known.locks[--held]->unlock_after_fork();
    busy->lock_for_fork();
    busy->unlock_after_fork();
    sched_yield();
  }
}

void unlock_all(Known& known) {
  for (Lock* lock : known.locks) lock->unlock_after_fork();
  known.mutex.unlock();
}

Known& known() {
  static Known* all = [] {
    pthread_atfork([] { lock_all(known()); }, [] { unlock_all(known()); },
                   [] {
                     for (Lock* lock : known().locks) lock->renew_in_child();
                     known().mutex.unlock();
                     count_fork();
                     for (void (*renew)() : known().renewals) renew();
                   });
    return new Known;
  }();
  return *all;
}

}  // namespace

void remember(Lock& lock) {
  std::lock_guard guard(known().mutex);
  known().locks.push_back(&lock);
}

void forget(Lock& lock) {
  std::lock_guard guard(known().mutex);
  std::erase(known().locks, &lock);
}

}  // namespace fork_detail

void in_forked_child(void (*renew)()) {
  fork_detail::Known& known = fork_detail::known();
  std::lock_guard lock(known.mutex);
  known.renewals.push_back(renew);
}

OwnProcess::OwnProcess() : generation_(current_generation), process_(::getpid()) {
  static const bool watching = (fork_detail::known(), true);
  (void)watching;
}

void OwnProcess::refuse(const char* what) const {
  throw Error(
      ErrorCode::kExecution,
      fmt::format("in a forked process: {} belongs to process {}, which this process ({}) was forked from. "
                  "The threads that serve it stayed there.\n"
                  "  try:      make the wrapper in this process, or start processes with 'spawn' "
                  "instead of 'fork'",
                  what, process_, ::getpid()))
      .because("in_forked_process");
}

}  // namespace ipu
