// Waiting a moment for another worker before giving up the processor.
#pragma once

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

}  // namespace ipu::emulator
