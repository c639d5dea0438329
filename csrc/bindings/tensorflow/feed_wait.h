// The device's wait for the other side of a feed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/kernel_table.h"

namespace ipu::tensorflow {

// Until `until` holds. Error(kInterrupted) when the run is to end; says once on the standard error what it waits for, when that
// takes more than ten seconds.
void wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, kernels::StopSignal& stop,
              const std::string& what, const std::function<bool()>& until);

}  // namespace ipu::tensorflow
