// Steps of a layer whose parts the lanes of one call take from one another: each lane goes through all steps and
// does the parts that nobody has taken, its own first, so that its share of the weight stays in its cache. A lane
// whose worker comes late or never costs time, not the result. Which lane does a part changes no bit.
#pragma once

#include "kernels/kernel_table.h"

namespace ipu::kernels {

class SharedSteps {
 public:
  static constexpr int kMostParts = KernelCall::kSharedWords - 1;

  // `call` has shared words.
  SharedSteps(const KernelCall& call, int parts) : call_(call), words_(call.shared), parts_(parts) {}

  // True: this lane, and no other, does part `part` of step `step`, and says completed() behind it.
  bool take(int64_t step, int part) {
    return words_[1 + part].compare_exchange_strong(step, step + 1, std::memory_order_relaxed);
  }
  void completed() { words_[0].fetch_add(1, std::memory_order_release); }
  // All parts of all steps before `step` are complete, and what they wrote is seen here. False: stopped.
  bool wait_for(int64_t step) const;

 private:
  const KernelCall& call_;
  std::atomic<int64_t>* const words_;  // [0]: parts completed; [1 + p]: steps whose part p is taken
  const int parts_;
};

}  // namespace ipu::kernels
