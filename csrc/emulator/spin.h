// Waiting a moment for another worker before giving up the processor.
#pragma once

#include <sched.h>

#include <chrono>

namespace ipu::emulator {

inline constexpr std::chrono::nanoseconds kSpinTime{5000};

inline void relax_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Between the lanes of one kernel and the next, and between two runs: waking a thread that sleeps takes 50 us.
inline constexpr std::chrono::nanoseconds kLongSpinTime{1000000};

// Tries for at most kSpinTime; says whether the condition held.
template <typename Condition>
bool spin_until(Condition&& condition) {
  auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return true;
      relax_processor();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// Tries for at most kLongSpinTime; other threads that want this processor get it.
template <typename Condition>
bool spin_long_until(Condition&& condition) {
  if (spin_until(condition)) return true;
  const auto deadline = std::chrono::steady_clock::now() + kLongSpinTime;
  do {
    for (int i = 0; i < 8; ++i) {
      if (condition()) return true;
      relax_processor();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace ipu::emulator
