// The process's helper threads, shared by all engines. A run never depends on them: the calling thread can do
// all the work itself, so a helper that comes late (or, after a fork, never) costs time only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "support/fork.h"

namespace ipu::emulator {

// What helpers help with. Registered from the first call for help until withdrawn.
class HelpedRun {
 public:
  virtual ~HelpedRun() = default;
  // Works as worker `worker` (1..max_helpers) until there has been nothing to do for a while.
  virtual void help(int worker) = 0;
  virtual bool has_work() const = 0;

  int max_helpers = 0;

 private:
  friend class HelperPool;
  bool registered_ = false;
  uint64_t busy_ = 0;  // bit w-1: a helper is inside as worker w
  std::atomic<int> inside_{0};
};

class HelperPool {
 public:
  static HelperPool& instance();
  static constexpr int kMaxHelpers = 64;

  // Tells helpers that spin that there is work; before anyone_asleep() is asked. Any thread.
  void announce() { announced_.fetch_add(1, std::memory_order_seq_cst); }
  // Registers `run` and wakes a sleeping helper, if any sleeps; starts threads the first time. Any thread.
  void call(HelpedRun& run);
  // Cheap: should call() be made at all?
  bool anyone_asleep() const { return asleep_.load(std::memory_order_seq_cst) > 0; }
  // No helper enters any more; waits until those inside have left. By the thread that owns the run.
  void withdraw(HelpedRun& run);

 private:
  friend HelperPool& ipu::of_this_process<HelperPool>();
  HelperPool() = default;
  void serve();
  HelpedRun* next_run(int* worker);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<HelpedRun*> runs_;
  int threads_ = 0;
  std::atomic<int> asleep_{0};
  std::atomic<uint32_t> announced_{0};
};

}  // namespace ipu::emulator
