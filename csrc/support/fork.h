// What a forked process finds. Only the thread that forks goes on in the child: a mutex that another thread
// held stays locked for ever, and what it guarded stays half changed. Two rules follow: mutexes of the whole
// process are ForkSafe, and objects that threads work on belong to the process that made them (OwnProcess).
#pragma once

#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace ipu {

namespace fork_detail {
class Lock {
 public:
  virtual void lock_for_fork() = 0;
  virtual bool try_lock_for_fork() = 0;
  virtual void unlock_after_fork() = 0;
  virtual void renew_in_child() = 0;

 protected:
  ~Lock() = default;
};
void remember(Lock& lock);
void forget(Lock& lock);
}  // namespace fork_detail

// A mutex that forking waits for: the child finds it free and what it guards whole. Its owner may neither
// fork nor wait for the interpreter lock, which a thread that forks holds.
template <typename Mutex>
class ForkSafe final : public Mutex, private fork_detail::Lock {
 public:
  ForkSafe() { fork_detail::remember(*this); }
  ~ForkSafe() { fork_detail::forget(*this); }
  ForkSafe(const ForkSafe&) = delete;
  ForkSafe& operator=(const ForkSafe&) = delete;

 private:
  void lock_for_fork() override { Mutex::lock(); }
  bool try_lock_for_fork() override { return Mutex::try_lock(); }
  void unlock_after_fork() override { Mutex::unlock(); }
  // Not unlock(): a shared mutex remembers the thread that locked it, which has another number in the child.
  void renew_in_child() override { new (static_cast<Mutex*>(this)) Mutex; }
};

// Calls `renew` in every process that is forked from now on.
void in_forked_child(void (*renew)());

// The object of this process: made when first asked for, never destroyed. A forked process begins with a new one.
template <typename T>
T& of_this_process() {
  static T* object = nullptr;
  static const bool made = [] {
    constexpr auto make = [] { object = new T; };
    make();
    in_forked_child(make);
    return true;
  }();
  (void)made;
  return *object;
}

// The process an object was made in.
class OwnProcess {
 public:
  OwnProcess();
  bool is_here() const { return generation_ == current_generation; }
  // Error(kExecution) in another process. `what`: "the device of the model".
  void require(const char* what) const {
    if (!is_here()) refuse(what);
  }

 private:
  friend void count_fork();
  [[noreturn]] void refuse(const char* what) const;
  static uint64_t current_generation;  // forks between the first process and this one
  uint64_t generation_;
  int process_;
};

}  // namespace ipu
