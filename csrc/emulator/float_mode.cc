#include "emulator/float_mode.h"

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace ipu::emulator {
namespace {

#if defined(__x86_64__) || defined(__i386__)
constexpr uint64_t kFlushes = 0x8000 | 0x0040;  // results to zero, operands as zero

uint64_t control() { return _mm_getcsr(); }
void set_control(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushes = uint64_t{1} << 24;

uint64_t control() {
  uint64_t bits = 0;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void set_control(uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
#else
constexpr uint64_t kFlushes = 0;

uint64_t control() { return 0; }
void set_control(uint64_t) {}
#endif

// The bits of kFlushes in `wanted`, all others as they are now: flags that were raised stay raised.
void set_flushing(uint64_t wanted) {
  const uint64_t now = control(), changed = (now & ~kFlushes) | (wanted & kFlushes);
  if (changed != now) set_control(changed);
}

thread_local uint64_t mode_outside = 0;  // of this thread, outside of runs

}  // namespace

FlushesSubnormals::FlushesSubnormals() : before_(control()) {
  mode_outside = before_;
  set_flushing(kFlushes);
}

FlushesSubnormals::~FlushesSubnormals() { set_flushing(before_); }

KeepsSubnormals::KeepsSubnormals() : during_run_(control()) { set_flushing(mode_outside); }

KeepsSubnormals::~KeepsSubnormals() { set_flushing(during_run_); }

}  // namespace ipu::emulator
