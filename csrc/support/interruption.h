// Lets a user stop work that takes long. The caller says, for the time of an object and on its thread, how to
// ask; the work asks between its pieces and ends with an error when the answer is yes.
#pragma once

#include <cstdint>
#include <functional>

namespace ipu {

// Milliseconds are enough here, and this clock is read in nanoseconds.
int64_t coarse_now_ns();
// Between two questions whether the user wants to stop: a question may have to wait for the interpreter.
inline constexpr int64_t kInterruptionInterval = 20'000'000;  // ns

class Interruptible {
 public:
  explicit Interruptible(std::function<bool()> wanted);  // nullptr: not to be stopped
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  friend void poll_interruption();
  std::function<bool()> wanted_;
  int64_t next_ns_ = 0;
  Interruptible* outer_;
};

// Throws Error(kInterrupted) when the user wants to stop. Costs some nanoseconds: for loops over ops, graphs,
// instructions, not over elements.
void poll_interruption();

}  // namespace ipu
