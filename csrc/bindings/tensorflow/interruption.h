// Ctrl-C while TensorFlow runs a step: Python looks at signals only when the step is over, so the library catches them itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace ipu::tensorflow {

// While a run lives, the first SIGINT ends it and goes nowhere else: Python raises the run's CancelledError, where it would trip
// over a KeyboardInterrupt within. The second goes its usual way, as all do where nothing runs.
class Interruption {
 public:
  Interruption();
  bool is_raised() const;
  // Before the step goes on. A signal that came too late to end the run goes its usual way.
  void end(bool was_run_ended);

 private:
  const uint32_t before_;
};

}  // namespace ipu::tensorflow
