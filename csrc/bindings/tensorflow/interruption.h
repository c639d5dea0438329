// Ctrl-C while TensorFlow runs a step: Python looks at signals only when the step is over, so the library counts them itself.
#pragma once

#include <functional>

namespace ipu::tensorflow {

struct Interruption {
  // Says whether SIGINT came since this call. From then on the library sees that signal before whoever handled it.
  static std::function<bool()> since_now();
};

}  // namespace ipu::tensorflow
