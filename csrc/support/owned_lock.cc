#include "support/owned_lock.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>

#include "support/error.h"

namespace ipu {

using Clock = std::chrono::steady_clock;

// One per thread. All but its address is guarded by the table's mutex. Records outlive their threads, for who
// looks at the owner of a lock that is just let go; the next thread takes them over.
struct OwnedLock::Thread {
  const OwnedLock* waits_for = nullptr;
  bool granted = false;
  std::condition_variable wake;
  Thread* next_free = nullptr;
};

namespace {

constexpr std::chrono::milliseconds kPoll(20);
constexpr std::chrono::seconds kStandstill(30);

WaitHooks wait_hooks;
// Guards who waits for whom, in all locks. Held for moments only, never while anything else is waited for.
// Never destroyed: threads may end after the process began to.
ForkSafe<std::mutex>& table() {
  static auto* mutex = new ForkSafe<std::mutex>;
  return *mutex;
}

// Holds the record of the calling thread, from its first lock to its end.
class Record {
 public:
  Record() {
    std::lock_guard<std::mutex> guard(table());
    record_ = free_ != nullptr ? free_ : new OwnedLock::Thread;
    free_ = std::exchange(record_->next_free, nullptr);
  }
  ~Record() {
    std::lock_guard<std::mutex> guard(table());
    record_->next_free = std::exchange(free_, record_);
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  OwnedLock::Thread& get() { return *record_; }

 private:
  OwnedLock::Thread* record_;
  inline static OwnedLock::Thread* free_ = nullptr;  // guarded by the table's mutex
};
thread_local Record this_thread;

Error busy(const std::string& why, const char* what, const char* cure) {
  return {ErrorCode::kBusy, fmt::format("{}: {}{}", why, what, cure)};
}

}  // namespace

void set_wait_hooks(WaitHooks hooks) { wait_hooks = hooks; }

void OwnedLock::acquire() {
  Thread& me = this_thread.get();
  if (!process_.is_here()) [[unlikely]]
    enter_child(me);
  if (owner_.load(std::memory_order_relaxed) == &me) {
    if (again_ == Again::kRefused)
      throw busy("call inside a call", what_,
                 " is in use by this very thread, which was interrupted (a signal handler, an exchange of "
                 "gradients)."
                 "\n  try:      set a flag in the handler and act on it after the call");
    ++depth_;
    return;
  }
  int free = 0;
  if (!word_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed))
    return wait(me);
  owner_.store(&me, std::memory_order_release);
  depth_ = 1;
}

// The only thread of a forked child is the one that forked.
void OwnedLock::enter_child(Thread& me) {
  if (in_child_ == InChild::kRefused) process_.require(what_);
  std::lock_guard<std::mutex> guard(table());
  if (process_.is_here()) return;  // another thread of the child was first
  if (owner_.load(std::memory_order_relaxed) != &me) {
    owner_.store(nullptr, std::memory_order_relaxed);
    depth_ = 0;
    word_.store(0, std::memory_order_relaxed);
  }
  waiting_.clear();
  steps_.store(nullptr, std::memory_order_relaxed);
  process_ = OwnProcess();
}

void OwnedLock::release() {
  if (--depth_ > 0) return;
  owner_.store(nullptr, std::memory_order_relaxed);
  int held = 1;
  if (!word_.compare_exchange_strong(held, 0, std::memory_order_release, std::memory_order_relaxed))
    hand_over();
}

// To who waits longest. Nothing is free in between, so nobody else can slip in.
void OwnedLock::hand_over() {
  std::lock_guard<std::mutex> guard(table());
  if (waiting_.empty()) {  // those who waited gave up
    word_.store(0, std::memory_order_release);
    return;
  }
  Thread* next = waiting_.front();
  waiting_.pop_front();
  next->waits_for = nullptr;
  next->granted = true;
  depth_ = 1;
  owner_.store(next, std::memory_order_release);
  next->wake.notify_one();
}

void OwnedLock::leave_queue(Thread& me) {
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &me));
  me.waits_for = nullptr;
}

void OwnedLock::wait(Thread& me) {
  {
    std::lock_guard<std::mutex> guard(table());
    int word = word_.load(std::memory_order_relaxed);
    while (word != 2) {
      if (!word_.compare_exchange_weak(word, word == 0 ? 1 : 2, std::memory_order_acquire)) continue;
      if (word == 1) break;
      owner_.store(&me, std::memory_order_release);
      depth_ = 1;
      return;
    }
    if (me.waits_for != nullptr)
      throw busy(
          "call inside a call", what_,
          " is in use, and this thread, interrupted by a signal handler, waits for another lock already."
          "\n  try:      set a flag in the handler and act on it after the call");
    // Whoever waits last sees the whole circle. A lock that changes hands meanwhile is in none.
    for (const OwnedLock* lock = this; lock != nullptr;) {
      const Thread* owner = lock->owner_.load(std::memory_order_acquire);
      if (owner == &me)
        throw busy(
            "threads wait for each other", what_,
            " is in use by a thread that waits for what this one holds."
            "\n  try:      call again; call models that share weights or an optimizer from one thread");
      if (owner == nullptr) break;
      const OwnedLock* next = owner->waits_for;
      lock = lock->owner_.load(std::memory_order_acquire) == owner ? next : nullptr;
    }
    waiting_.push_back(&me);
    me.waits_for = this;
    me.granted = false;
  }
  bool interrupted = false, stuck = false;
  auto in_turn = [&] {
    std::unique_lock<std::mutex> guard(table());
    uint64_t steps = 0;
    Clock::time_point last_step = Clock::now();
    while (!me.granted) {
      if (me.wake.wait_for(guard, kPoll, [&] { return me.granted; })) return;
      const std::atomic<uint64_t>* watched = steps_.load(std::memory_order_acquire);
      const uint64_t now = watched == nullptr ? 0 : watched->load(std::memory_order_relaxed);
      if (watched == nullptr || now != steps) last_step = Clock::now();
      steps = now;
      stuck = Clock::now() - last_step > kStandstill;
      guard.unlock();
      interrupted = wait_hooks.interrupted != nullptr && wait_hooks.interrupted();
      guard.lock();
      if (!interrupted && !stuck) continue;
      if (!me.granted) leave_queue(me);
      return;
    }
  };
  if (wait_hooks.outside != nullptr)
    wait_hooks.outside(in_turn);
  else
    in_turn();
  if (!interrupted) {
    if (me.granted) return;
    throw busy("the holder is stuck", what_,
               " is in use by a thread that compiles a model, and its forward() did nothing for 30 s."
               "\n  try:      call again; do not wait in forward() for a thread that calls a model");
  }
  if (me.granted) release();
  throw Error(ErrorCode::kInterrupted, std::string("interrupted: while waiting for ") + what_);
}

}  // namespace ipu
