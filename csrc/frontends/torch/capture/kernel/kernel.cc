// The boxed kernel: decides for each call whether it is captured, runs on the host, or goes on to the CPU.
//   an ipu tensor of the graph, or memory that became one, among the arguments → captured (recording.h)
//   only ipu tensors with known values, or an ipu device argument              → on the host, results are ipu
//                                                                                tensors (host_call.h)
//   only CPU tensors (they come here while PrivateUse1 is included)            → the CPU kernel
// Operators about memory, devices and values are treated by themselves (specials.h); all others by their
// importers.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/kernel/host_call.h"
#include "frontends/torch/capture/kernel/recording.h"
#include "frontends/torch/capture/kernel/specials.h"
#include "frontends/torch/capture/operators/mixed_types.h"
#include "frontends/torch/capture/operators/stack.h"
#include "frontends/torch/errors.h"
#include "frontends/torch/host_memory.h"

namespace ipu::frontends::torch_frontend {
namespace {

using torch::jit::Stack;
using Arguments = at::ArrayRef<c10::IValue>;

struct Scan {
  bool ours = false;     // an ipu tensor
  bool foreign = false;  // a tensor that says ipu but is not ours: a fake tensor
  bool graph = false;    // a value of the graph
  bool device = false;   // an ipu device argument
  bool tensors = false;
};

[[noreturn]] void raise_stale(const OpInfo& info) {
  throw Error(ErrorCode::kCapture,
              "tensor of a finished capture: aten::" + info.overload +
                  " reads an IPU tensor that was made while a model was captured; it has no data.\n"
                  "  try:      return it from forward(), or make it anew in each forward()");
}

[[noreturn]] void raise_other_thread(const OpInfo& info) {
  throw Error(
      ErrorCode::kOtherThread,
      "operation from another thread: aten::" + info.overload +
          " uses a tensor of a model that another thread is capturing.\n"
          "  try:      run forward() in one thread; let others use the model's parameters before or after "
          "its first call or compile()");
}

Scan scan(const OpInfo& info, Arguments arguments, Capture* capture) {
  Scan s;
  for (const c10::IValue& a : arguments) {
    if (a.isDevice()) {
      s.device = s.device || a.toDevice().type() == kDeviceType;
      continue;
    }
    for_each_tensor(a, [&](const at::Tensor& t) {
      s.tensors = true;
      if (IpuTensorImpl* impl = impl_of(t)) {
        s.ours = true;
        const Base& base = *impl->slot->base;
        if (base.on_host) {
          // Gradients are those of values of the graph, and this one asks for its own.
          s.graph = s.graph || (capture != nullptr && t.requires_grad() && at::GradMode::is_enabled());
          return;
        }
        if (base.capture == 0 || base.capture != Capture::current_id()) {
          if (Capture::is_settling(base.capture)) raise_other_thread(info);
          raise_stale(info);
        }
        if (capture == nullptr) raise_other_thread(info);
        s.graph = true;
      } else if (is_ours(t)) {
        s.foreign = true;
      } else if (capture != nullptr && capture->memory().has_storages() &&
                 capture->memory().is_graph_value(t)) {
        s.graph = true;
      }
    });
  }
  return s;
}

// "new_empty", "empty_like.out"
bool makes_memory_like(const OpInfo& info) {
  const std::string base = info.overload.substr(0, info.overload.find('.'));
  return base.starts_with("new_") || base.starts_with("empty") || base.ends_with("_like");
}

void require_allowed_outside(const OpInfo& info, Arguments arguments, const Scan& s) {
  if (!s.tensors || info.special != Special::kNone || info.viewed >= 0 || info.moves_view) return;
  if (makes_memory_like(info)) return;
  const std::string& name = info.overload;
  const std::string base = name.substr(0, name.find('.'));
  if (base == "resize_" || base == "_reshape_alias" || base == "_unsafe_view") return;
  // Initialisers: in-place ops that read nothing but what they write.
  if (!info.written.empty()) {
    bool only_written = true;
    for (size_t i = 0; i < arguments.size(); ++i) {
      bool is_written = std::find(info.written.begin(), info.written.end(), i) != info.written.end();
      if (!is_written) for_each_tensor(arguments[i], [&](const at::Tensor&) { only_written = false; });
    }
    if (only_written) return;
  }
  throw Error(ErrorCode::kCapture, "operation outside a model: aten::" + name +
                                       " cannot run on an ipu tensor here; outside forward() of a wrapped "
                                       "model ipu tensors are only made, "
                                       "moved, copied, printed and saved.\n"
                                       "  try:      wrap the model with poptorch.inferenceModel or "
                                       "poptorch.trainingModel and call that, or "
                                       "move the tensor with .cpu() first");
}

// Torch's meta kernels in Python ask for the result where their first operand is, and nothing writes it.
void refuse_result_of_meta_kernel(const OpInfo& info, const FunctionWatch::MixedCall& call) {
  if (!makes_memory_like(info)) return;
  throw Error(ErrorCode::kForeignTensor, std::string("tensor of another device: an operand of ") + call.op +
                                             " " + objection_to(call.meta));
}

void dispatch(const OpInfo& info, Stack* stack) {
  Capture* c = Capture::current();
  if (c != nullptr && c->functions().mixed_call() != nullptr)
    refuse_result_of_meta_kernel(info, *c->functions().mixed_call());
  Arguments arguments(stack->data() + stack->size() - info.arguments(), info.arguments());
  Scan s = scan(info, arguments, c);
  if (s.foreign && !s.ours) return forward_to_meta(info, stack);
  // Reading an IPU value into CPU memory makes that memory part of the graph; so does any other write.
  if (c != nullptr && info.device_only) return record(*c, info, stack);
  if (!s.ours && !s.device && !s.graph) return forward_to_cpu(info, stack);
  if (info.moves_view && info.twin != nullptr && info.special == Special::kNone &&
      impl_of(arguments[0].toTensor()) != nullptr) {
    return move_view(info, stack);
  }
  if (run_special(c, info, s.graph, stack)) return;
  if (s.graph) settle_mixed_types(info, stack);
  if (s.graph || (c != nullptr && info.random)) return record(*c, info, stack);
  if (c == nullptr) require_allowed_outside(info, arguments, s);
  run_on_host(info, stack);
}

// A call with a sparse, quantised or nested tensor: with an IPU tensor beside it there is no kernel, else it is the CPU's.
void dispatch_other_layout(const OpInfo& info, Stack* stack) {
  Arguments arguments(stack->data() + stack->size() - info.arguments(), info.arguments());
  bool ours = false;
  std::string objection;
  for (const c10::IValue& a : arguments)
    for_each_tensor(a, [&](const at::Tensor& t) {
      ours = ours || is_ours(t);
      if (!is_ours(t) && objection.empty()) objection = objection_to(t);
    });
  if (!ours) return forward_to_cpu(info, stack);
  throw Error(ErrorCode::kForeignTensor,
              "tensor of another layout: an operand of aten::" + info.overload + " " + objection);
}

template <void (*kDispatch)(const OpInfo&, Stack*)>
void guarded(const c10::OperatorHandle& op, Stack* stack) {
  try {
    kDispatch(op_info(op), stack);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kUnsupportedOps && !e.user_line().empty())
      raise_through_torch(e);  // has its stacks
    Error located = e;
    const UserPlace place = current_place();
    if (e.user_line().empty()) located.at(place.line);
    raise_through_torch(located.add(place.stack));
  } catch (const std::bad_alloc&) {
    Error error(ErrorCode::kHostMemory, "out of host memory: while capturing aten::" + op_info(op).overload +
                                            ".\n  try:      smaller sizes");
    raise_through_torch(error.at(current_user_line()));
  }
}

}  // namespace

void capture_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  guarded<&dispatch>(op, stack);
}

void other_layout_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  guarded<&dispatch_other_layout>(op, stack);
}

}  // namespace ipu::frontends::torch_frontend
