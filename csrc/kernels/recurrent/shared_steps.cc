// See shared_steps.h.
#include "kernels/recurrent/shared_steps.h"

#include <hwy/cache_control.h>
#include <sched.h>

namespace ipu::kernels {
namespace {

constexpr int kSpins = 2000;  // some 50 us; then the lane that has the last part may want this processor

}  // namespace

bool SharedSteps::wait_for(int64_t step) const {
  const int64_t wanted = step * parts_;
  for (int spins = 0; words_[0].load(std::memory_order_acquire) < wanted; ++spins) {
    if (spins <= kSpins) {
      hwy::Pause();
      continue;
    }
    if (call_.stopped()) return false;
    sched_yield();
  }
  return true;
}

}  // namespace ipu::kernels
