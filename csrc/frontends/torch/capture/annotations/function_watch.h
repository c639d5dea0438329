// Whether gradients are off where the program is. forward() of a custom autograd.Function runs with gradients
// off; what counts is the mode around it. So calls of autograd.Function.apply are watched: each opens a record
// without an operator name, and an `apply` that was bound before the capture does, too.
// So are operators that take a meta tensor beside an IPU tensor: torch runs their meta kernel, which asks us for a result
// and never writes it.
// Nobody else is told of calls meanwhile: a profiler would count what never runs, and hold on to tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ipu::frontends::torch_frontend {

class FunctionWatch {
 public:
  // `current`: the watch of the calling thread, or nullptr; asked at each call, for the callback may outlive
  // what it reports to.
  void start(FunctionWatch* (*current)());
  void stop();  // by the thread that started it; harmless when it has not been started

  bool gradients_off() const;
  struct MixedCall {
    const char* op;   // "aten::mm"
    at::Tensor meta;  // the operand
  };
  // The outermost running operator that takes an IPU tensor and a meta tensor; nullptr: none.
  const MixedCall* mixed_call() const;

 private:
  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& call);
  static void leave(const at::RecordFunction& call, at::ObserverContext* context);

  std::vector<bool> modes_;  // grad mode at entry of each running autograd.Function
  std::vector<MixedCall> mixed_calls_;
  uint64_t callback_ = 0;  // handle, 0: none
  at::RecordFunctionTLS others_;
};

}  // namespace ipu::frontends::torch_frontend
