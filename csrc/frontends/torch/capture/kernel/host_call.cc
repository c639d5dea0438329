#include "frontends/torch/capture/kernel/host_call.h"

#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/capture/memory/views.h"
#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/capture/operators/stack.h"
#include "frontends/torch/capture/operators/tensor_meta.h"

namespace ipu::frontends::torch_frontend {
namespace {

using torch::jit::Stack;

// The key that counts writes is excluded with autograd; constants are cached by version, so it is done here.
void count_writes(const OpInfo& info, Stack* stack) {
  for (size_t i : info.written) {
    for_each_tensor((*stack)[stack->size() - info.arguments() + i], [](const at::Tensor& t) {
      if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    });
  }
}

at::Tensor viewed_argument(const OpInfo& info, const Stack& stack) {
  if (info.viewed < 0) return {};
  const c10::IValue& argument = stack[stack.size() - info.arguments() + static_cast<size_t>(info.viewed)];
  return argument.isTensor() ? argument.toTensor() : at::Tensor();
}

// The same key lets views share the count of writes of what they look at.
void share_versions(const OpInfo& info, const at::Tensor& viewed, const Stack& stack) {
  if (!viewed.defined() || viewed.is_inference()) return;
  for (size_t i = stack.size() - info.returns(); i < stack.size(); ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& t) {
      if (!t.is_inference() && !t.is_same(viewed) && t.is_alias_of(viewed))
        t.unsafeGetTensorImpl()->set_version_counter(viewed.unsafeGetTensorImpl()->version_counter());
    });
}

}  // namespace

at::Tensor host_of(const at::Tensor& t) {
  IpuTensorImpl* impl = impl_of(t);
  return impl == nullptr ? t : impl->slot->host;
}

void run_on_host(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  std::vector<c10::IValue> arguments(stack->end() - n, stack->end());
  std::vector<std::pair<const c10::TensorImpl*, at::Tensor>> originals;
  for (size_t i = 0; i < n; ++i) {
    c10::IValue& a = (*stack)[stack->size() - n + i];
    if (a.isDevice()) {
      if (a.toDevice().type() == kDeviceType) a = c10::IValue(c10::Device(c10::kCPU));
    } else {
      a = map_tensors(a, [&](const at::Tensor& t) {
        at::Tensor host = host_of(t);
        if (impl_of(t) != nullptr) originals.emplace_back(host.unsafeGetTensorImpl(), t);
        return host;
      });
    }
  }
  count_writes(info, stack);
  const at::Tensor looked_at = viewed_argument(info, *stack);  // its host tensor by now
  {
    WithoutCapture below;
    info.op.callBoxed(stack);
  }
  share_versions(info, looked_at, *stack);
  at::Tensor viewed;
  if (info.viewed >= 0 && arguments[info.viewed].isTensor()) viewed = arguments[info.viewed].toTensor();
  IpuTensorImpl* parent = viewed.defined() ? impl_of(viewed) : nullptr;
  std::shared_ptr<ViewStep> step = parent != nullptr ? Views::step_of(info, arguments) : nullptr;
  size_t result = 0;
  for (size_t i = stack->size() - info.returns(); i < stack->size(); ++i) {
    (*stack)[i] = map_tensors((*stack)[i], [&](const at::Tensor& t) {
      size_t index = result++;
      for (const auto& [impl, original] : originals) {
        if (impl != t.unsafeGetTensorImpl() || (parent != nullptr && original.is_same(viewed))) continue;
        if (original.sizes() != t.sizes() || original.strides() != t.strides()) {
          impl_of(original)->become(t.sizes(), t.strides(), t.storage_offset(), impl_of(original)->slot);
        }
        return original;
      }
      if (parent == nullptr) return wrap_host(t);
      step->types.push_back(ir_type(t.sizes(), t.scalar_type()));
      return wrap_host(t, parent->slot, step, index);
    });
  }
}

void forward_to_cpu(const OpInfo& info, Stack* stack) {
  count_writes(info, stack);
  const at::Tensor looked_at = viewed_argument(info, *stack);
  {
    WithoutCapture below;
    info.op.callBoxed(stack);
  }
  share_versions(info, looked_at, *stack);
}

void forward_to_meta(const OpInfo& info, Stack* stack) {
  for (size_t i = stack->size() - info.arguments(); i < stack->size(); ++i) {
    if ((*stack)[i].isDevice()) (*stack)[i] = c10::IValue(c10::Device(c10::kMeta));
  }
  info.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
}

}  // namespace ipu::frontends::torch_frontend
