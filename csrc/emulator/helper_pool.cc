#include "emulator/helper_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "emulator/float_mode.h"
#include "emulator/spin.h"

namespace ipu::emulator {

// Its threads sleep until the process ends, and a forked child has none of them.
HelperPool& HelperPool::instance() { return of_this_process<HelperPool>(); }

void HelperPool::call(HelpedRun& run) {
  std::lock_guard lock(mutex_);
  if (!run.registered_) {
    run.registered_ = true;
    runs_.push_back(&run);
  }
  int wanted = std::min(run.max_helpers, kMaxHelpers);
  try {
    while (threads_ < wanted) {
      std::thread([this] { serve(); }).detach();
      ++threads_;
    }
  } catch (const std::system_error&) {
    // No more threads to be had: the ones there are, or the caller alone, do the work.
  }
  wake_.notify_one();
}

void HelperPool::withdraw(HelpedRun& run) {
  {
    std::lock_guard lock(mutex_);
    if (!run.registered_) return;
    run.registered_ = false;
    runs_.erase(std::find(runs_.begin(), runs_.end(), &run));
  }
  for (int spins = 0; run.inside_.load(std::memory_order_acquire) > 0; ++spins)
    if (spins > 1000) sched_yield();
}

HelpedRun* HelperPool::next_run(int* worker) {
  for (HelpedRun* run : runs_) {
    if (!run->has_work()) continue;
    for (int w = 1; w <= std::min(run->max_helpers, kMaxHelpers); ++w) {
      uint64_t bit = uint64_t{1} << (w - 1);
      if (run->busy_ & bit) continue;
      run->busy_ |= bit;
      *worker = w;
      return run;
    }
  }
  return nullptr;
}

// A helper without work watches for a while from outside of the runs, so that none has to wait for it to leave.
void HelperPool::serve() {
  const FlushesSubnormals flushes;
  std::unique_lock lock(mutex_);
  for (;;) {
    int worker = 0;
    uint32_t seen = announced_.load(std::memory_order_seq_cst);
    HelpedRun* run = next_run(&worker);
    if (run == nullptr) {
      lock.unlock();
      const bool called = spin_long_until([&] { return announced_.load(std::memory_order_relaxed) != seen; });
      lock.lock();
      if (called) continue;
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      run = next_run(&worker);
      if (run == nullptr) wake_.wait(lock);
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
      if (run == nullptr) continue;
    }
    run->inside_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    run->help(worker);
    lock.lock();
    run->busy_ &= ~(uint64_t{1} << (worker - 1));
    run->inside_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace ipu::emulator
