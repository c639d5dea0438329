// What tensors mean as values of the graph: constants, states entering at first use, reads that replay views,
// writes that fold back through them, and host memory that becomes a graph value when one is written to it.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "frontends/torch/capture/capture.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Whether all elements are the same: such a constant is a scalar that is expanded.
bool is_uniform(const std::byte* data, size_t item, int64_t elements) {
  return elements < 2 || std::memcmp(data, data + item, item * static_cast<size_t>(elements - 1)) == 0;
}

class OnCpu {  // operators on CPU tensors made here are ours, not the user's
 public:
  OnCpu() : saved_(c10::impl::tls_local_dispatch_key_set()) {
    c10::impl::LocalDispatchKeySet keys = saved_;
    uint64_t ours = c10::DispatchKeySet(kKey).raw_repr();
    keys.included_ = c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys.included_.raw_repr() & ~ours);
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  ~OnCpu() { c10::impl::_force_tls_local_dispatch_key_set(saved_); }

 private:
  c10::impl::LocalDispatchKeySet saved_;
};

void warn_of_clamping() {
  TORCH_WARN(
      "A constant holds integers that do not fit 32 bits; the IPU computes with 32-bit integers, so they are "
      "clamped to that range.");
}

Slot* root_of(Slot* slot) {
  while (slot->parent) slot = slot->parent.get();
  return slot;
}

}  // namespace

int64_t clamped_constant(int64_t value) {
  const int64_t clamped =
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (clamped != value) warn_of_clamping();
  return clamped;
}

at::Tensor to_device_type(const at::Tensor& cpu) {
  std::optional<DType> dtype = device_dtype(cpu.scalar_type());
  if (!dtype) {
    throw Error(ErrorCode::kTypeMismatch, std::string("unsupported element type: a constant of type ") +
                                              c10::toString(cpu.scalar_type()) +
                                              " cannot be used on the IPU");
  }
  at::Tensor t = cpu.detach();
  if (cpu.scalar_type() == at::kLong) {
    constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
    at::Tensor clamped = t.clamp(low, high);
    if (!clamped.equal(t)) warn_of_clamping();
    t = clamped;
  }
  return t.to(scalar_type(*dtype)).contiguous();
}

ir::Value* Capture::constant(const at::Tensor& cpu) {
  uint32_t version = cpu.is_inference() ? 0 : cpu.unsafeGetTensorImpl()->version_counter().current_version();
  auto found = constants_.find(cpu.unsafeGetTensorImpl());
  if (found != constants_.end() && found->second.version == version && !cpu.is_inference())
    return found->second.value;
  OnCpu below;
  at::Tensor t = to_device_type(cpu);
  DType dtype = *device_dtype(cpu.scalar_type());
  Shape shape(t.sizes().begin(), t.sizes().end());
  const auto* data = static_cast<const std::byte*>(t.const_data_ptr());
  ir::Value* value;
  if (t.dim() > 0 && t.numel() > 1 && is_uniform(data, t.element_size(), t.numel())) {
    value = builder_.constant(ir::make_constant(dtype, {}, data));
    value = ops::build(builder_, "expand", {value}, {{"shape", shape}});
  } else {
    value = builder_.constant(ir::make_constant(dtype, shape, data));
  }
  constants_[cpu.unsafeGetTensorImpl()] = {cpu, version, value};
  return value;
}

bool Capture::is_graph_value(const at::Tensor& t) {
  if (IpuTensorImpl* impl = impl_of(t)) return !impl->slot->base->on_host;
  return t.device().is_cpu() && !storages_.empty() && t.has_storage() &&
         storages_.count(t.storage().unsafeGetStorageImpl()) > 0;
}

std::shared_ptr<Slot> Capture::slot_of(const at::Tensor& t) {
  if (IpuTensorImpl* impl = impl_of(t)) return impl->slot;
  if (!is_graph_value(t)) return nullptr;
  std::shared_ptr<Slot> root = storages_.at(t.storage().unsafeGetStorageImpl());
  const at::Tensor& whole = root->host;
  if (whole.sizes() == t.sizes() && whole.strides() == t.strides() &&
      whole.storage_offset() == t.storage_offset() && whole.scalar_type() == t.scalar_type()) {
    return root;
  }
  if (whole.scalar_type() != t.scalar_type()) {
    throw Error(ErrorCode::kCapture,
                "reinterpreted memory: a CPU tensor that the model writes is read with another "
                "element type")
        .at(current_user_line());
  }
  // Any other view of that memory.
  static const OpInfo& as_strided = *find_op_info("aten::as_strided", "");
  auto view = std::make_shared<Slot>();
  view->base = root->base;
  view->parent = root;
  view->step = std::make_shared<ViewStep>();
  view->step->op = &as_strided;
  view->step->arguments = {c10::IValue(), t.sizes().vec(), t.strides().vec(), t.storage_offset()};
  view->step->types = {{*device_dtype(t.scalar_type()), Shape(t.sizes().begin(), t.sizes().end())}};
  view->host = t;
  return view;
}

at::Tensor Capture::host_value(const at::Tensor& t) {
  std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr) return t;
  if (slot->base->on_host) return slot->host;
  // Integer states keep their value until they are written.
  if (slot->base->state >= 0 && slot->base->generation == 1 && slot->host.defined() &&
      !at::isFloatingType(slot->host.scalar_type()) && !states_[slot->base->state].updatable) {
    return slot->host;
  }
  return {};
}

ir::Value* Capture::read(const at::Tensor& t) {
  IpuTensorImpl* impl = impl_of(t);
  std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr) return constant(t);
  ir::Value* value = read_slot(slot);
  if (impl == nullptr || slot->base->on_host || !is_floating_point(value->type().dtype)) return value;
  if (t.requires_grad() && t.is_leaf()) return read_leaf(t, *impl, value);
  return impl->detached ? ops::build(builder_, "detach", {value}) : value;
}

ir::Value* Capture::read_slot(const std::shared_ptr<Slot>& slot) {
  Base& base = *slot->base;
  if (base.on_host) return constant(slot->host);
  if (slot->value != nullptr && slot->generation == base.generation) return slot->value;
  if (slot->parent == nullptr) {
    IPU_CHECK(base.state >= 0, "a root that is not a state always has its value");
    ModelTensor& state = states_[base.state];
    DType dtype = *device_dtype(state.spec.dtype);
    state.input = graph_->add_input({dtype, Shape(state.spec.shape)}, state.spec.name);
    slot->value = state.input;
  } else {
    ViewStep& step = *slot->step;
    if (step.values.empty() || step.generation != base.generation) {
      ir::Value* parent = read_slot(slot->parent);
      std::vector<TensorMeta> results;
      step.values = import_view(step, parent);
      step.generation = base.generation;
    }
    slot->value = step.values[slot->result];
  }
  slot->generation = base.generation;
  return slot->value;
}

void Capture::promote(const std::shared_ptr<Slot>& slot) {
  Slot* root = root_of(slot.get());
  Base& base = *root->base;
  ir::Value* value = constant(root->host);
  enter_graph(root->base);
  root->value = value;
  root->generation = base.generation;
}

void Capture::enter_graph(const std::shared_ptr<Base>& base) {
  base->on_host = false;
  base->capture = id_;
  ++base->generation;
  promoted_.push_back(base);
}

void Capture::write(const at::Tensor& t, ir::Value* value) {
  std::shared_ptr<Slot> slot = slot_of(t);
  bool replaces_all = false;
  if (slot == nullptr) {
    // A CPU tensor is written with a value of the graph: from now on its whole memory is one.
    OnCpu below;
    int64_t elements = static_cast<int64_t>(t.storage().nbytes() / t.element_size());
    at::Tensor flat = at::empty({0}, t.options()).set_(t.storage(), 0, {elements}, {1});
    auto root = std::make_shared<Slot>();
    root->base = std::make_shared<Base>();
    root->host = flat;
    storages_.emplace(t.storage().unsafeGetStorageImpl(), root);
    kept_.push_back(t);
    promote(root);
    slot = slot_of(t);
  } else if (slot->base->on_host) {
    if (slot->parent != nullptr)
      promote(slot);
    else
      enter_graph(slot->base);  // all of it is written: what it held is not needed
    replaces_all = slot->parent == nullptr;
  }
  // With gradients off, or through a detached tensor, memory changes behind the back of the gradient: what
  // was there before goes on getting it.
  IpuTensorImpl* impl = impl_of(t);
  const bool unseen = builder_.settings.no_grad || (impl != nullptr && impl->detached);
  if (!training_ || !unseen || replaces_all || !is_floating_point(value->type().dtype))
    return write_slot(slot, value);
  std::shared_ptr<Slot> root = slot;
  while (root->parent != nullptr) root = root->parent;
  ir::Value* before = read_slot(root);
  write_slot(slot, value);
  const bool no_grad = std::exchange(builder_.settings.no_grad, false);
  write_slot(root, ops::build(builder_, "straight_through", {before, root->value}));
  builder_.settings.no_grad = no_grad;
}

void Capture::write_slot(const std::shared_ptr<Slot>& slot, ir::Value* value) {
  Base& base = *slot->base;
  if (slot->parent == nullptr) {
    if (base.state >= 0 && slot->value == nullptr) read_slot(slot);  // a written state is also an input
    slot->value = value;
    slot->generation = ++base.generation;
    return;
  }
  // The way back goes through the shape operators that make the view of its parent. A value written to the
  // view does not show them, so the view is made anew unless that has just been done.
  ir::Value* parent = read_slot(slot->parent);
  ViewStep& step = *slot->step;
  if (step.values.empty() || step.generation != base.generation) {
    step.values = import_view(step, parent);
    step.generation = base.generation;
  }
  write_slot(slot->parent, fold_back(parent, step.values[slot->result], value, slot));
  slot->value = value;
  slot->generation = base.generation;
}

// `view` was made from `target` by shape operators: applies their inverses to `value`, outermost first.
ir::Value* Capture::fold_back(ir::Value* target, ir::Value* view, ir::Value* value,
                              const std::shared_ptr<Slot>& slot) {
  while (view != target) {
    ir::Op* op = view->producer();
    IPU_CHECK(op != nullptr && op->operand_count() > 0, "a view leads back to what it views");
    ir::Value* from = op->operand(0);
    if (op->is("reshape")) {
      value = ops::build(builder_, "reshape", {value}, {{"shape", from->type().shape}});
    } else if (op->is("transpose")) {
      const std::vector<int64_t>& perm = op->attributes.integers("perm");
      std::vector<int64_t> inverse(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
      value = ops::build(builder_, "transpose", {value}, {{"perm", inverse}});
    } else if (op->is("slice")) {
      value = ops::build(builder_, "slice_scatter", {from, value}, op->attributes);
    } else if (!op->is("nop") && !op->is("detach")) {
      throw Error(ErrorCode::kCapture,
                  "write through a view: aten::" + slot->step->op->overload +
                      " makes a view that cannot be written on the IPU; plain slices, selections, "
                      "reshapes and transpositions can.\n"
                      "  try:      torch.where, masks, or index_put on the whole tensor")
          .at(current_user_line());
    }
    view = from;
  }
  return value;
}

}  // namespace ipu::frontends::torch_frontend
