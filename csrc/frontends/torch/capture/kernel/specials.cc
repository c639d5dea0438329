#include "frontends/torch/capture/kernel/specials.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "frontends/torch/capture/gradients/gradient_node.h"
#include "frontends/torch/capture/kernel/host_call.h"
#include "frontends/torch/capture/kernel/known_masks.h"
#include "frontends/torch/capture/kernel/recording.h"
#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/capture/operators/shapes.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

using torch::jit::Stack;
using Arguments = at::ArrayRef<c10::IValue>;

TensorMeta meta_like(const at::Tensor& t, at::ScalarType dtype) {
  TensorMeta m;
  m.sizes.assign(t.sizes().begin(), t.sizes().end());
  m.strides.assign(t.strides().begin(), t.strides().end());
  if (!t.is_non_overlapping_and_dense()) {
    int64_t stride = 1;
    for (int64_t i = t.dim() - 1; i >= 0; --i) {
      m.strides[i] = stride;
      stride *= std::max<int64_t>(t.size(i), 1);
    }
  }
  m.dtype = dtype;
  return m;
}

[[noreturn]] void raise_value_needed(const std::string& what) {
  throw Error(
      ErrorCode::kValueNeeded,
      "value needed: " + what +
          " needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on "
          "symbolic tensors.\n"
          "  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its "
          "value; "
          "poptorch.isRunningOnIpu() to skip the line")
      .at(current_user_line());
}

void finish_call(Stack* stack, size_t arguments, c10::IValue result) {
  torch::jit::drop(*stack, arguments);
  stack->push_back(std::move(result));
}

void to_copy(Capture* c, const OpInfo& info, bool in_graph, Stack* stack) {
  size_t n = info.arguments();
  Arguments a(stack->data() + stack->size() - n, n);
  at::Tensor self = a[0].toTensor();
  at::ScalarType dtype = a[1].isNone() ? self.scalar_type() : a[1].toScalarType();
  c10::Device device = a[3].isNone() ? self.device() : a[3].toDevice();
  at::Tensor host = in_graph ? at::Tensor() : host_of(self);
  if (in_graph && device.type() == c10::kCPU) {
    host = c->memory().known_value(self);
    if (!host.defined()) raise_value_needed("moving a tensor to the CPU (.cpu(), .to(\"cpu\"), .numpy())");
  } else if (in_graph) {
    c->start_op(info);
    ir::Value* value = c->memory().read(self);
    DType to = device_dtype(dtype).value_or(DType::kF32);
    if (!device_dtype(dtype)) {
      throw Error(ErrorCode::kTypeMismatch, std::string("unsupported element type: ") + c10::toString(dtype) +
                                                " does not exist on the IPU");
    }
    if (value->type().dtype != to) value = ops::build(c->builder(), "cast", {value}, {{"dtype", to}});
    at::Tensor copy = c->memory().new_tensor(meta_like(self, dtype), value);
    attach_gradient({self}, copy);
    finish_call(stack, n, copy);
    return;
  }
  std::vector<c10::IValue> arguments(a.begin(), a.end());
  if (device.type() != kDeviceType && device.type() != c10::kCPU) {  // .to("meta")
    torch::jit::drop(*stack, n);
    arguments[0] = host;
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    forward_to_cpu(info, stack);
    return;
  }
  arguments[0] = host;
  arguments[3] = c10::IValue(c10::Device(c10::kCPU));
  arguments[4] = c10::IValue();  // pinned memory means nothing here
  Stack call(arguments.begin(), arguments.end());
  {
    WithoutCapture below;
    info.op.callBoxed(&call);
  }
  at::Tensor copy = call.back().toTensor();
  finish_call(stack, n, device.type() == kDeviceType ? wrap_host(copy) : copy);
}

void copy_into(Capture* c, const OpInfo& info, bool in_graph, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor(),
             source = torch::jit::peek(*stack, 1, n).toTensor();
  if (in_graph) {
    c->start_op(info);
    c->memory().write(self, fit(c->builder(), c->memory().read(source), self));
    attach_gradient({self, source}, self);
  } else {
    at::Tensor to = host_of(self);
    if (!to.is_inference()) to.unsafeGetTensorImpl()->bump_version();
    WithoutCapture below;
    to.copy_(host_of(source));
  }
  finish_call(stack, n, self);
}

double number_for(DType dtype, const at::Scalar& value) {
  return is_integer(dtype) && value.isIntegral(true) ? static_cast<double>(clamped_constant(value.toLong()))
                                                     : value.toDouble();
}

void fill(Capture* c, const OpInfo& info, bool in_graph, Stack* stack) {
  if (!in_graph) return run_on_host(info, stack);
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  c->start_op(info);
  const ir::Type type = ir_type(self.sizes(), self.scalar_type());
  if (n == 1) {
    c->memory().write(self, c->builder().splat(type, 0.0));
  } else {
    c10::IValue value = torch::jit::peek(*stack, 1, n);
    if (value.isTensor())
      c->memory().write(self, fit(c->builder(), c->memory().read(value.toTensor()), self));
    else
      c->memory().write(self, c->builder().splat(type, number_for(type.dtype, value.toScalar())));
  }
  finish_call(stack, n, self);
}

void set_storage(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  Arguments a(stack->data() + stack->size() - n, n);
  at::Tensor self = a[0].toTensor();
  c10::Storage storage = a[1].toStorage();
  if (storage.device_type() == kDeviceType && storage.data() == nullptr && storage.nbytes() > 0)
    raise_value_needed("set_() to the storage of an IPU tensor");
  IpuTensorImpl* impl = impl_of(self);
  if (impl == nullptr) return forward_to_cpu(info, stack);
  if (Capture* c = Capture::current()) {
    c->memory().require_movable(*impl);
    c->memory().keep_history(*impl);
  }
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
  size_t item = self.dtype().itemsize();
  if (n > 2) {
    offset = a[2].toInt();
    sizes = a[3].toIntVector();
    strides = a[4].toIntVector();
  } else {
    sizes = {static_cast<int64_t>(storage.nbytes() / item)};
    strides = {1};
  }
  at::Tensor host;
  {
    WithoutCapture below;
    // The tensor keeps the storage alive and reads its bytes in place.
    void* data = storage.mutable_data();
    int64_t elements = static_cast<int64_t>(storage.nbytes() / item);
    at::Tensor flat = at::from_blob(
        data, {elements}, [storage](void*) {},
        at::TensorOptions().dtype(self.scalar_type()).device(c10::kCPU));
    host = flat.as_strided(sizes, strides, offset);
  }
  at::Tensor wrapped = wrap_host(host);
  impl->become(sizes, strides, offset, impl_of(wrapped)->slot);
  finish_call(stack, n, self);
}

void item(Capture* c, const OpInfo& info, bool in_graph, Stack* stack) {
  at::Tensor self = torch::jit::peek(*stack, 0, 1).toTensor();
  at::Tensor host = in_graph ? c->memory().known_value(self) : host_of(self);
  if (!host.defined()) raise_value_needed("a Python number (.item(), int(), float(), bool(), `if tensor:`)");
  WithoutCapture below;
  finish_call(stack, info.arguments(), host.item());
}

void detach(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  IpuTensorImpl* impl = impl_of(self);
  if (impl == nullptr) return forward_to_cpu(info, stack);  // a CPU view of graph memory shares its storage
  finish_call(stack, n, at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), true)));
}

void alias(Capture* c, const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  IpuTensorImpl* impl = impl_of(self);
  if (impl == nullptr) return forward_to_cpu(info, stack);
  if (c != nullptr) c->memory().own_leaf(self);
  at::Tensor same =
      make_tensor(self.sizes(), self.strides(), self.storage_offset(), self.scalar_type(), impl->slot);
  impl_of(same)->detached = impl->detached;
  if (c != nullptr && impl->detached && self.requires_grad()) impl_of(same)->history = c->memory().read(self);
  attach_gradient({self}, same);
  finish_call(stack, n, same);
}

void clone(Capture* c, const OpInfo& info, bool in_graph, Stack* stack) {
  if (!in_graph) return run_on_host(info, stack);
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  Arguments a(stack->data() + stack->size() - n, n);
  InferredResults results = infer_results(info, a);
  c->start_op(info);
  at::Tensor copy = c->memory().new_tensor(results.tensors[0], c->memory().read(self));
  attach_gradient({self}, copy);
  finish_call(stack, n, copy);
}

// What torch asks before `self.data = from`; its own errors have no cure, and what is thrown later has no class.
void may_share_data(Capture* c, const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor(),
             from = torch::jit::peek(*stack, 1, n).toTensor();
  if (c != nullptr && (self.device().is_cpu() || from.device().is_cpu()) && is_ours(self) != is_ours(from)) {
    const IpuTensorImpl* impl = impl_of(self);
    const ModelTensor* state = impl == nullptr ? nullptr : c->memory().states().of(*impl);
    throw Error(ErrorCode::kForeignTensor,
                "data of another device: forward() assigns a tensor of the " +
                    std::string(from.device().is_cpu() ? "CPU to the .data of " : "IPU to the .data of ") +
                    (state != nullptr         ? state->described()
                     : self.device().is_cpu() ? "a tensor of the CPU"
                                              : "a tensor of the IPU") +
                    ".\n  try:      x.copy_(value), or register_buffer for what the model keeps")
        .at(current_user_line());
  }
  if (const IpuTensorImpl* impl = impl_of(self); c != nullptr && impl != nullptr)
    c->memory().require_movable(*impl);
  finish_call(stack, n, self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()));
}

}  // namespace

bool run_special(Capture* capture, const OpInfo& info, bool in_graph, Stack* stack) {
  switch (info.special) {
    case Special::kNone:
      return false;
    case Special::kToCopy:
      to_copy(capture, info, in_graph, stack);
      return true;
    case Special::kCopy:
      copy_into(capture, info, in_graph, stack);
      return true;
    case Special::kItem:
      item(capture, info, in_graph, stack);
      return true;
    case Special::kFill:
      fill(capture, info, in_graph, stack);
      return true;
    case Special::kSetStorage:
      set_storage(info, stack);
      return true;
    case Special::kValue:
      if (in_graph && !settle_known_values(*capture, info, stack))
        raise_value_needed("torch." + info.overload + "()");
      run_on_host(info, stack);
      return true;
    case Special::kDetach:
      detach(info, stack);
      return true;
    case Special::kAlias:
      alias(capture, info, stack);
      return true;
    case Special::kMayShareData:
      may_share_data(capture, info, stack);
      return true;
    case Special::kClone:
      clone(capture, info, in_graph, stack);
      return true;
  }
  return false;
}

}  // namespace ipu::frontends::torch_frontend
