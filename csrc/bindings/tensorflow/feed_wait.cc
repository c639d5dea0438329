#include "bindings/tensorflow/feed_wait.h"

#include <chrono>
#include <cstdio>

#include "support/error.h"

namespace ipu::tensorflow {
namespace {

constexpr std::chrono::milliseconds kStopInterval{20};  // how often a waiting device asks whether to stop
constexpr int kPatience = 500;                          // intervals: ten seconds

}  // namespace

void wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, kernels::StopSignal& stop,
              const std::string& what, const std::function<bool()>& until) {
  for (int waits = 1; !changed.wait_for(lock, kStopInterval, until); ++waits) {
    lock.unlock();  // the answer may be a call into a front end
    const bool ends = stop.raised();
    lock.lock();
    if (ends)
      throw Error(ErrorCode::kInterrupted, "interrupted: the run was stopped while it waited for " + what);
    if (waits == kPatience) std::fprintf(stderr, "The IPU has been waiting for %s for 10 s.\n", what.c_str());
  }
}

}  // namespace ipu::tensorflow
