// The boxed kernel: decides for each call whether it is captured, runs on the host, or goes on to the CPU.
//   an ipu tensor of the graph, or memory that became one, among the arguments → captured
//   only ipu tensors with known values, or an ipu device argument              → on the host, results are ipu
//                                                                                tensors
//   only CPU tensors (they come here while PrivateUse1 is included)            → the CPU kernel
// Operators about memory, devices and values are handled here; all others by their importers.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/gradient_node.h"
#include "frontends/torch/capture/mixed_types.h"
#include "frontends/torch/capture/shapes.h"
#include "frontends/torch/capture/stack.h"
#include "frontends/torch/errors.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

using torch::jit::Stack;
using Arguments = at::ArrayRef<c10::IValue>;

RaiseFunction raise_function = nullptr;

// Lets calls made below reach the CPU: PrivateUse1 is taken out of the thread's included keys.
class WithoutCapture {
 public:
  WithoutCapture() : saved_(c10::impl::tls_local_dispatch_key_set()) {
    c10::impl::LocalDispatchKeySet keys = saved_;
    uint64_t ours = c10::DispatchKeySet(kKey).raw_repr();
    keys.included_ = c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys.included_.raw_repr() & ~ours);
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  ~WithoutCapture() { c10::impl::_force_tls_local_dispatch_key_set(saved_); }

 private:
  c10::impl::LocalDispatchKeySet saved_;
};

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
        if (base.on_host) return;
        if (base.capture == 0 || base.capture != Capture::current_id()) {
          if (Capture::is_settling(base.capture)) raise_other_thread(info);
          raise_stale(info);
        }
        if (capture == nullptr) raise_other_thread(info);
        s.graph = true;
      } else if (is_ours(t)) {
        s.foreign = true;
      } else if (capture != nullptr && capture->has_storages() && capture->is_graph_value(t)) {
        s.graph = true;
      }
    });
  }
  return s;
}

void require_allowed_outside(const OpInfo& info, Arguments arguments, const Scan& s) {
  if (!s.tensors || info.special != Special::kNone || info.viewed >= 0 || info.moves_view) return;
  const std::string& name = info.overload;
  std::string base = name.substr(0, name.find('.'));
  if (base.rfind("new_", 0) == 0 || (base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0))
    return;
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

at::Tensor host_of(const at::Tensor& t) {
  IpuTensorImpl* impl = impl_of(t);
  return impl == nullptr ? t : impl->slot->host;
}

ir::Type ir_type(const TensorMeta& m) {
  return {device_dtype(m.dtype).value_or(DType::kF32), Shape(m.sizes.begin(), m.sizes.end())};
}

std::shared_ptr<ViewStep> make_step(const OpInfo& info, Arguments arguments) {
  auto step = std::make_shared<ViewStep>();
  step->op = &info;
  step->viewed = static_cast<size_t>(info.viewed);
  step->arguments.assign(arguments.begin(), arguments.end());
  step->arguments[step->viewed] = c10::IValue();
  return step;
}

// The key that counts writes is excluded with autograd; constants are cached by version, so it is done here.
void count_writes(const OpInfo& info, Stack* stack) {
  for (size_t i : info.written) {
    for_each_tensor((*stack)[stack->size() - info.arguments() + i], [](const at::Tensor& t) {
      if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    });
  }
}

// Runs on the host: ipu tensors become the CPU tensors behind them, results are wrapped.
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
  {
    WithoutCapture below;
    info.op.callBoxed(stack);
  }
  at::Tensor viewed;
  if (info.viewed >= 0 && arguments[info.viewed].isTensor()) viewed = arguments[info.viewed].toTensor();
  IpuTensorImpl* parent = viewed.defined() ? impl_of(viewed) : nullptr;
  std::shared_ptr<ViewStep> step = parent != nullptr ? make_step(info, arguments) : nullptr;
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
      step->types.push_back(ir_type({{t.sizes().begin(), t.sizes().end()}, {}, 0, t.scalar_type()}));
      return wrap_host(t, parent->slot, step, index);
    });
  }
}

void forward_to_cpu(const OpInfo& info, Stack* stack) {
  count_writes(info, stack);
  WithoutCapture below;
  info.op.callBoxed(stack);
}

// Fake tensors on our device wrap plain meta tensors: hand on what Meta says, unwrapped.
void forward_to_meta(const OpInfo& info, Stack* stack) {
  for (size_t i = stack->size() - info.arguments(); i < stack->size(); ++i) {
    if ((*stack)[i].isDevice()) (*stack)[i] = c10::IValue(c10::Device(c10::kMeta));
  }
  info.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
}

// Casts and broadcasts `value` to what the memory of `target` holds.
ir::Value* fit(Capture& c, ir::Value* value, const at::Tensor& target) {
  ir::Type type{device_dtype(target.scalar_type()).value_or(DType::kF32),
                Shape(target.sizes().begin(), target.sizes().end())};
  if (value->type().dtype != type.dtype) {
    value = ops::build(c.builder(), "cast", {value}, {{"dtype", type.dtype}});
  }
  if (value->type().shape != type.shape) {
    value = ops::build(c.builder(), "expand", {value}, {{"shape", type.shape}});
  }
  return value;
}

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

// --- specials

void finish_call(Stack* stack, size_t arguments, c10::IValue result) {
  torch::jit::drop(*stack, arguments);
  stack->push_back(std::move(result));
}

void to_copy(Capture* c, const OpInfo& info, const Scan& s, Stack* stack) {
  size_t n = info.arguments();
  Arguments a(stack->data() + stack->size() - n, n);
  at::Tensor self = a[0].toTensor();
  at::ScalarType dtype = a[1].isNone() ? self.scalar_type() : a[1].toScalarType();
  c10::Device device = a[3].isNone() ? self.device() : a[3].toDevice();
  if (s.graph) {
    if (device.type() == c10::kCPU)
      raise_value_needed("moving a tensor to the CPU (.cpu(), .to(\"cpu\"), .numpy())");
    c->start_op(info);
    ir::Value* value = c->read(self);
    DType to = device_dtype(dtype).value_or(DType::kF32);
    if (!device_dtype(dtype)) {
      throw Error(ErrorCode::kTypeMismatch, std::string("unsupported element type: ") + c10::toString(dtype) +
                                                " does not exist on the IPU");
    }
    if (value->type().dtype != to) value = ops::build(c->builder(), "cast", {value}, {{"dtype", to}});
    finish_call(stack, n, c->new_tensor(meta_like(self, dtype), value));
    return;
  }
  at::Tensor host = host_of(self);
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

void copy_into(Capture* c, const OpInfo& info, const Scan& s, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor(),
             source = torch::jit::peek(*stack, 1, n).toTensor();
  if (s.graph) {
    c->start_op(info);
    c->write(self, fit(*c, c->read(source), self));
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

void fill(Capture* c, const OpInfo& info, const Scan& s, Stack* stack) {
  if (!s.graph) return run_on_host(info, stack);
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  c->start_op(info);
  ir::Type type{device_dtype(self.scalar_type()).value_or(DType::kF32),
                Shape(self.sizes().begin(), self.sizes().end())};
  if (n == 1) {
    c->write(self, c->builder().splat(type, 0.0));
  } else {
    c10::IValue value = torch::jit::peek(*stack, 1, n);
    if (value.isTensor())
      c->write(self, fit(*c, c->read(value.toTensor()), self));
    else
      c->write(self, c->builder().splat(type, number_for(type.dtype, value.toScalar())));
  }
  finish_call(stack, n, self);
}

void set_storage(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  Arguments a(stack->data() + stack->size() - n, n);
  at::Tensor self = a[0].toTensor();
  c10::Storage storage = a[1].toStorage();
  IpuTensorImpl* impl = impl_of(self);
  if (impl == nullptr) return forward_to_cpu(info, stack);
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

void item(Capture* c, const OpInfo& info, const Scan& s, Stack* stack) {
  at::Tensor self = torch::jit::peek(*stack, 0, 1).toTensor();
  at::Tensor host = s.graph ? c->host_value(self) : host_of(self);
  if (!host.defined()) raise_value_needed("a Python number (.item(), int(), float(), bool(), `if tensor:`)");
  WithoutCapture below;
  finish_call(stack, info.arguments(), host.item());
}

bool run_special(Capture* c, const OpInfo& info, const Scan& s, Stack* stack) {
  size_t n = info.arguments();
  switch (info.special) {
    case Special::kNone:
      return false;
    case Special::kToCopy:
      to_copy(c, info, s, stack);
      return true;
    case Special::kCopy:
      copy_into(c, info, s, stack);
      return true;
    case Special::kItem:
      item(c, info, s, stack);
      return true;
    case Special::kFill:
      fill(c, info, s, stack);
      return true;
    case Special::kSetStorage:
      set_storage(info, stack);
      return true;
    case Special::kValue:
      if (s.graph) raise_value_needed("torch." + info.overload + "()");
      run_on_host(info, stack);
      return true;
    case Special::kDetach: {
      at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
      IpuTensorImpl* impl = impl_of(self);
      if (impl == nullptr)
        forward_to_cpu(info, stack);  // detach of a CPU view of graph memory shares its storage
      else
        finish_call(stack, n, at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), true)));
      return true;
    }
    case Special::kAlias: {
      at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
      IpuTensorImpl* impl = impl_of(self);
      if (impl == nullptr) {
        forward_to_cpu(info, stack);
        return true;
      }
      at::Tensor same =
          make_tensor(self.sizes(), self.strides(), self.storage_offset(), self.scalar_type(), impl->slot);
      impl_of(same)->detached = impl->detached;
      attach_gradient({self}, same);
      finish_call(stack, n, same);
      return true;
    }
    case Special::kClone: {
      if (!s.graph) {
        run_on_host(info, stack);
        return true;
      }
      at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
      Arguments a(stack->data() + stack->size() - n, n);
      InferredResults results = infer_results(info, a);
      c->start_op(info);
      at::Tensor copy = c->new_tensor(results.tensors[0], c->read(self));
      attach_gradient({self}, copy);
      finish_call(stack, n, copy);
      return true;
    }
  }
  return false;
}

// --- capture

[[noreturn]] void raise_dynamic_shape(Capture& c, const OpInfo& info) {
  c.unsupported_without_shape(
      info, "the shape of its result depends on values; use torch.where or a mask of fixed shape");
}

bool has_boolean_index(Arguments arguments) {
  bool found = false;
  for (const c10::IValue& a : arguments) {
    if (!a.isOptionalTensorList()) continue;
    for_each_tensor(a, [&](const at::Tensor& t) {
      found = found || t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
    });
  }
  return found;
}

// Operators torch tags as of dynamic shape whose result is known from these arguments all the same.
bool has_known_shape(const OpInfo& info, Arguments arguments) {
  if (info.overload == "index.Tensor") return !has_boolean_index(arguments);
  if (info.overload == "bincount") return arguments[2].toInt() > 0;
  return info.overload == "one_hot" && arguments[1].toInt() > 0;
}

InferredResults infer(Capture& c, const OpInfo& info, Arguments arguments) {
  if (info.dynamic_shape && !has_known_shape(info, arguments)) {
    raise_dynamic_shape(c, info);
  }
  try {
    return infer_results(info, arguments);
  } catch (const c10::NotImplementedError&) {
    c.unsupported_without_shape(info, "torch has no shape rule for it");
  }
}

std::vector<ir::Value*> import_or_collect(Capture& c, const OpInfo& functional, const OpInfo& info,
                                          Arguments arguments, const std::vector<TensorMeta>& results) {
  if (functional.importer == nullptr) return c.unsupported(info, "", arguments, results);
  try {
    return c.import(functional, arguments, results);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupportedOps) throw;
    return c.unsupported(info, e.message(), arguments, results);
  }
}

bool has_out_arguments(const OpInfo& info) {
  const auto& arguments = info.op.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), [](const auto& a) { return a.is_out(); });
}

// What torch says, for what torch does.
void warn_of_resizing(at::IntArrayRef before, at::IntArrayRef wanted) {
  TORCH_WARN(
      "An output with one or more elements was resized since it had shape ", before,
      ", which does not match the required output shape ", wanted,
      ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless "
      "they have zero elements.");
}

// In-place and out= operators: the functional twin computes, the result is written to the arguments.
void record_write(Capture& c, const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  std::vector<c10::IValue> arguments(stack->end() - n, stack->end());
  const OpInfo& functional = *info.twin;
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < n; ++i) {
    if (!info.op.schema().arguments()[i].is_out()) inputs.push_back(arguments[i]);
  }
  InferredResults inferred = infer(c, functional, inputs);
  std::vector<at::Tensor> targets, read;
  for (size_t i : info.written)
    for_each_tensor(arguments[i], [&](const at::Tensor& t) { targets.push_back(t); });
  for (const c10::IValue& a : inputs) for_each_tensor(a, [&](const at::Tensor& t) { read.push_back(t); });
  for (size_t i = 0; i < targets.size() && i < inferred.tensors.size(); ++i) {
    TensorMeta& m = inferred.tensors[i];
    at::IntArrayRef wanted(m.sizes);
    if (targets[i].sizes() == wanted) continue;
    if (has_out_arguments(info)) {
      at::Tensor fresh = wrap_host(at::empty(wanted, at::TensorOptions().dtype(targets[i].scalar_type())));
      const std::vector<int64_t> before = targets[i].sizes().vec();
      if (c.resize(targets[i], wanted, fresh)) {
        if (element_count(before) > 0) warn_of_resizing(before, wanted);
        continue;
      }
    }
    throw Error(ErrorCode::kTypeMismatch, "output shape mismatch: " + info.domain + "::" + info.overload +
                                              " writes a result of shape " + to_string(wanted) +
                                              " to a tensor of shape " + to_string(targets[i].sizes()));
  }
  // The memory keeps its element type; the importer computes in it.
  for (size_t i = 0; i < targets.size() && i < inferred.tensors.size(); ++i) {
    inferred.tensors[i].dtype = targets[i].scalar_type();
  }
  std::vector<ir::Value*> values = import_or_collect(c, functional, info, inputs, inferred.tensors);
  for (size_t i = 0; i < targets.size() && i < values.size(); ++i) {
    c.write(targets[i], fit(c, values[i], targets[i]));
    attach_gradient(read, targets[i]);
  }
  torch::jit::drop(*stack, n);
  for (size_t i = 0; i < info.returns(); ++i) {
    if (info.same_as[i] >= 0) stack->push_back(arguments[info.same_as[i]]);
  }
}

void record(Capture& c, const OpInfo& info, Stack* stack) {
  c.start_op(info);
  if (info.twin != nullptr) return record_write(c, info, stack);
  size_t n = info.arguments();
  std::vector<c10::IValue> arguments(stack->end() - n, stack->end());
  InferredResults inferred = infer(c, info, arguments);
  std::vector<ir::Value*> values = import_or_collect(c, info, info, arguments, inferred.tensors);
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& a : arguments)
    for_each_tensor(a, [&](const at::Tensor& t) { inputs.push_back(t); });
  std::shared_ptr<ViewStep> step;
  at::Tensor viewed;
  if (info.viewed >= 0 && arguments[info.viewed].isTensor() && info.importer != nullptr) {
    viewed = arguments[info.viewed].toTensor();
    step = make_step(info, arguments);
    for (const TensorMeta& m : inferred.tensors) step->types.push_back(ir_type(m));
    step->generation = c.slot_of(viewed)->base->generation;
    step->values = values;
  }
  size_t next = 0;
  auto make = [&] {
    size_t i = next++;
    at::Tensor t = step ? c.new_view(inferred.tensors[i], viewed, step, i, values[i])
                        : c.new_tensor(inferred.tensors[i], values[i]);
    attach_gradient(inputs, t);
    return t;
  };
  torch::jit::drop(*stack, n);
  for (int layout : inferred.layout) {
    if (layout == -2) {
      stack->emplace_back(at::Tensor());
    } else if (layout == -1) {
      stack->emplace_back(make());
    } else {
      c10::List<at::Tensor> list;
      for (int i = 0; i < layout; ++i) list.push_back(make());
      stack->emplace_back(std::move(list));
    }
  }
}

// t_, squeeze_, transpose_: the tensor becomes another view of its memory.
void move_view(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  Stack call(stack->end() - n, stack->end());
  info.twin->op.callBoxed(&call);
  at::Tensor moved = call.back().toTensor();
  IpuTensorImpl* impl = impl_of(self);
  impl->become(moved.sizes(), moved.strides(), moved.storage_offset(), impl_of(moved)->slot);
  impl->detached = impl->detached || impl_of(moved)->detached;
  finish_call(stack, n, self);
}

void dispatch(const OpInfo& info, Stack* stack) {
  Capture* c = Capture::current();
  Arguments arguments(stack->data() + stack->size() - info.arguments(), info.arguments());
  Scan s = scan(info, arguments, c);
  if (s.foreign && !s.ours) return forward_to_meta(info, stack);
  // Reading an IPU value into CPU memory makes that memory part of the graph; so does any other write.
  if (!s.ours && !s.device && !s.graph) return forward_to_cpu(info, stack);
  if (info.moves_view && info.twin != nullptr && info.special == Special::kNone &&
      impl_of(arguments[0].toTensor()) != nullptr) {
    return move_view(info, stack);
  }
  if (run_special(c, info, s, stack)) return;
  if (s.graph) settle_mixed_types(info, stack);
  if (s.graph || (c != nullptr && info.random)) return record(*c, info, stack);
  if (c == nullptr) require_allowed_outside(info, arguments, s);
  run_on_host(info, stack);
}

}  // namespace

void set_raise_function(RaiseFunction raise) { raise_function = raise; }

void raise_through_torch(const Error& error) {
  if (raise_function != nullptr) raise_function(error);
  throw error;
}

void capture_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  try {
    dispatch(op_info(op), stack);
  } catch (const Error& e) {
    if (!e.user_line().empty()) raise_through_torch(e);
    Error located = e;
    raise_through_torch(located.at(current_user_line()));
  } catch (const std::bad_alloc&) {
    Error error(ErrorCode::kHostMemory, "out of host memory: while capturing aten::" + op_info(op).overload +
                                            ".\n  try:      smaller sizes");
    raise_through_torch(error.at(current_user_line()));
  }
}

}  // namespace ipu::frontends::torch_frontend
