// Whether gradients are off where the program is. forward() of a custom autograd.Function runs with gradients
// off; what counts is the mode around it. So calls of autograd.Function.apply are watched: each opens a record
// without an operator name, and an `apply` that was bound before the capture does, too.
// Nobody else is told of calls meanwhile: a profiler would count what never runs, and hold on to tensors.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <vector>

namespace ipu::frontends::torch_frontend {

class FunctionWatch {
 public:
  // `current`: the watch of the calling thread, or nullptr; asked at each call, for the callback may outlive
  // what it reports to.
  void start(FunctionWatch* (*current)());
  void stop();  // by the thread that started it; harmless when it has not been started

  bool gradients_off() const;

 private:
  std::vector<bool> modes_;  // grad mode at entry of each running autograd.Function
  uint64_t callback_ = 0;    // handle, 0: none
  at::RecordFunctionTLS others_;
};

}  // namespace ipu::frontends::torch_frontend
