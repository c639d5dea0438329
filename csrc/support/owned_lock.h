// The one lock for what several threads of a user's program may use: devices, wrappers, the capture. Four
// rules that a plain mutex lacks, so that no call waits for ever:
//   nobody waits inside the interpreter: whoever must wait leaves it first (WaitHooks::outside);
//   waiting ends when the user interrupts the program (WaitHooks::interrupted);
//   waiting that could never end is an Error(kBusy): for oneself, in a circle, for a holder that is stuck;
//   first come, first served: a loop of calls in one thread lets others in.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "support/fork.h"

namespace ipu {

// How threads wait in this process; set once, before there are threads. Both may be empty.
struct WaitHooks {
  // Runs its argument without whatever the caller holds that others need to go on (Python's interpreter
  // lock).
  void (*outside)(const std::function<void()>& wait) = nullptr;
  // Asked about every 20 ms: shall waiting end with Error(kInterrupted)?
  bool (*interrupted)() = nullptr;
};
void set_wait_hooks(WaitHooks hooks);

class OwnedLock {
 public:
  enum class Again : uint8_t {
    kRefused,
    kAllowed
  };  // what a thread that has the lock gets when it asks again

  // What a forked child gets, whose parent's threads may hold the lock and serve what it guards.
  enum class InChild : uint8_t { kRefused, kFree };

  // `what` names in messages what is locked: "the device of the model". Static text.
  OwnedLock(const char* what, Again again, InChild in_child = InChild::kRefused)
      : what_(what), again_(again), in_child_(in_child) {}
  OwnedLock(const OwnedLock&) = delete;
  OwnedLock& operator=(const OwnedLock&) = delete;

  class Hold {
   public:
    explicit Hold(OwnedLock& lock) : lock_(lock) { lock_.acquire(); }
    ~Hold() { lock_.release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    OwnedLock& lock_;
  };

  void acquire();
  void release();
  bool is_here() const { return process_.is_here(); }                          // in the process that made it
  bool is_held() const { return word_.load(std::memory_order_acquire) != 0; }  // by whatever thread
  // By the holder: `steps` counts what it gets done. Those who wait give up with Error(kBusy) when it stands
  // still for half a minute: the holder may be waiting for them in a way that cannot be seen from here.
  // nullptr: no more.
  void watch(const std::atomic<uint64_t>* steps) { steps_.store(steps, std::memory_order_release); }

  struct Thread;

 private:
  void wait(Thread& me);
  void enter_child(Thread& me);
  void hand_over();
  void leave_queue(Thread& me);

  const char* what_;
  const Again again_;
  const InChild in_child_;
  OwnProcess process_;
  std::atomic<int> word_{0};  // 0 free, 1 held, 2 held and perhaps waited for
  std::atomic<Thread*> owner_{nullptr};
  int depth_ = 0;                // of the owner
  std::deque<Thread*> waiting_;  // in order of arrival
  std::atomic<const std::atomic<uint64_t>*> steps_{nullptr};
};

}  // namespace ipu
