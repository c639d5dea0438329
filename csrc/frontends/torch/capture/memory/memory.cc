#include "frontends/torch/capture/memory/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/memory/known_values.h"
#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/host_memory.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {

Memory::Memory(uint64_t capture, bool training, ir::Builder& builder)
    : capture_(capture),
      training_(training),
      builder_(builder),
      constants_(builder),
      views_(builder),
      inputs_(capture, builder.graph()),
      states_(builder.graph()) {}

at::Tensor Memory::add_state(const std::string& name, const at::Tensor& tensor, bool is_parameter,
                             bool trainable, bool updatable, bool is_statistic) {
  StateSpec spec;
  spec.name = name;
  spec.is_parameter = is_parameter;
  IpuTensorImpl* impl = impl_of(tensor);
  const at::Tensor host = impl == nullptr ? tensor : impl->slot->host;
  if (!tensor.is_meta()) require_host_memory(host.defined() ? host : tensor, spec.described());
  required_device_dtype(spec.described(), tensor.scalar_type());
  std::shared_ptr<Slot> slot = graph_slot(capture_, nullptr);
  slot->base->state = static_cast<int>(states_.size());
  slot->host = impl == nullptr ? tensor.detach() : host;
  storages_.emplace(slot->host.storage().unsafeGetStorageImpl(), slot);
  spec.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.dtype = tensor.scalar_type();
  spec.is_statistic = is_statistic;
  spec.trainable = trainable && tensor.requires_grad();
  at::Tensor counterpart = make_tensor(tensor.sizes(), tensor.strides(), 0, tensor.scalar_type(), slot);
  if (tensor.requires_grad()) counterpart.set_requires_grad(true);
  states_.add(std::move(spec), slot, counterpart, updatable);
  return counterpart;
}

bool Memory::is_graph_value(const at::Tensor& t) const {
  if (IpuTensorImpl* impl = impl_of(t)) return !impl->slot->base->on_host;
  return t.device().is_cpu() && !storages_.empty() && t.has_storage() &&
         storages_.count(t.storage().unsafeGetStorageImpl()) > 0;
}

std::shared_ptr<Slot> Memory::slot_of(const at::Tensor& t) const {
  if (IpuTensorImpl* impl = impl_of(t)) return impl->slot;
  if (!is_graph_value(t)) return nullptr;
  const std::shared_ptr<Slot>& root = storages_.at(t.storage().unsafeGetStorageImpl());
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
  std::shared_ptr<Slot> view = view_slot(root, Views::window(t));  // any other view of that memory
  view->host = t;
  return view;
}

int64_t Memory::version_of(const at::Tensor& t) const {
  const std::shared_ptr<Slot> slot = slot_of(t);
  return slot == nullptr ? 0 : static_cast<int64_t>(slot->base->versions);
}

at::Tensor Memory::host_value(const at::Tensor& t) const {
  std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr) return t;
  const Base& base = *slot->base;
  if (base.on_host) return slot->host;
  if (base.state >= 0 && slot->host.defined() && is_known(states_[base.state])) return slot->host;
  return {};
}

at::Tensor Memory::known_value(const at::Tensor& t) {
  const at::Tensor host = host_value(t);
  const std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr || slot->base->on_host) return host;
  const auto note = [&](size_t state) { seen_.try_emplace(state, current_user_line()); };
  if (host.defined()) {
    note(static_cast<size_t>(slot->base->state));
    return host;
  }
  const std::optional<KnownValue> known = torch_frontend::known_value(value_of(slot), states_);
  if (!known) return {};
  for (size_t state : known->states) note(state);
  const WithoutCapture below;
  return at::tensor(at::ArrayRef<double>(known->value.values), at::kDouble)
      .to(t.scalar_type())
      .reshape(t.sizes());
}

// `value`, with its gradients to `before`; also where operators have none now.
ir::Value* Memory::straight_through(ir::Value* before, ir::Value* value) {
  const bool no_grad = std::exchange(builder_.settings.no_grad, false);
  ir::Value* made = ops::build(builder_, "straight_through", {before, value});
  builder_.settings.no_grad = no_grad;
  return made;
}

ir::Value* Memory::read(const at::Tensor& t) {
  own_leaf(t);
  IpuTensorImpl* impl = impl_of(t);
  std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr) return constants_.value_of(t);
  ir::Value* value = value_of(slot);
  if (!is_floating_point(value->type().dtype)) return value;
  if (impl == nullptr)  // the caller's name of a state's memory
    return slot->base->state >= 0 && !t.requires_grad() ? ops::build(builder_, "detach", {value}) : value;
  ModelTensor* state = states_.of(*impl);
  if (slot->base->on_host && state == nullptr && impl->history == nullptr) return value;
  if (state != nullptr && t.requires_grad() && t.is_leaf()) return read_parameter(*state, value);
  const bool is_frozen = state != nullptr && state->spec.trainable && !t.requires_grad();
  if (impl->history != nullptr && impl->history != value) return straight_through(impl->history, value);
  return is_frozen || (impl->detached && impl->history == nullptr) ? ops::build(builder_, "detach", {value})
                                                                   : value;
}

void Memory::own_leaf(const at::Tensor& t) {
  IpuTensorImpl* impl = impl_of(t);
  if (impl == nullptr || !t.requires_grad() || !t.is_leaf()) return;
  if (impl->is_known_leaf && !impl->detached) return;  // given other memory, it becomes one anew
  if (!std::exchange(impl->is_known_leaf, true)) leaves_.push_back(t);
  if (states_.of(*impl) != nullptr) return;
  const std::shared_ptr<Slot> of = impl->slot;
  if (of->base->state >= 0 && of->parent == nullptr && !impl->detached) return;
  if (of->base->on_host) promote(of);
  impl->slot = view_slot(of, Views::own_value(ir_type(t.sizes(), t.scalar_type()), impl->detached));
  impl->slot->host = of->host;
  impl->detached = false;
  impl->history = nullptr;
}

ir::Value* Memory::value_of(const std::shared_ptr<Slot>& slot) {
  const Base& base = *slot->base;
  if (base.on_host) return constants_.value_of(slot->host);
  refuse_left_behind(base);
  if (slot->is_current()) return slot->value;
  if (slot->parent == nullptr) {
    IPU_CHECK(base.state >= 0, "a root that is not a state always has its value");
    slot->value = states_.enter(base.state);
  } else {
    ViewStep& step = *slot->step;
    if (!step.is_current(base.generation)) views_.look(step, value_of(slot->parent), base.generation);
    slot->value = step.values[slot->result];
  }
  slot->generation = base.generation;
  return slot->value;
}

ir::Value* Memory::value_at_entry(const at::Tensor& t) {
  const IpuTensorImpl* impl = impl_of(t);
  const ModelTensor* state = impl == nullptr ? nullptr : states_.of(*impl);
  IPU_CHECK(state != nullptr, "a tensor that is no state of the model");
  if (state->input == nullptr) value_of(state->slot);
  return state->input;
}

at::Tensor Memory::new_tensor(const TensorMeta& meta, ir::Value* value) {
  return make_tensor(meta.sizes, meta.strides, meta.storage_offset, meta.dtype, graph_slot(capture_, value));
}

at::Tensor Memory::new_view(const TensorMeta& meta, const at::Tensor& of, std::shared_ptr<ViewStep> step,
                            size_t result, ir::Value* value) {
  std::shared_ptr<Slot> slot = view_slot(slot_of(of), std::move(step), result);
  slot->value = value;
  slot->generation = slot->base->generation;
  at::Tensor view = make_tensor(meta.sizes, meta.strides, meta.storage_offset, meta.dtype, std::move(slot));
  IpuTensorImpl* from = impl_of(of);
  impl_of(view)->detached = from != nullptr && from->detached;
  if (impl_of(view)->detached && of.requires_grad()) impl_of(view)->history = value;
  return view;
}

// Where nobody else looks at its memory the tensor gets new memory, of which nothing has to be kept.
bool Memory::resize(const at::Tensor& t, at::IntArrayRef sizes, const at::Tensor& fresh) {
  IpuTensorImpl* impl = impl_of(t);
  if (impl == nullptr || impl->slot->parent != nullptr || impl->slot->base->state >= 0) return false;
  const bool is_input = inputs_.holds(impl->slot);
  if (impl->slot.use_count() != (is_input ? 2 : 1) || impl->slot->base.use_count() != 1) {
    if (is_input || !t.is_contiguous()) return false;
    resize_shared(*impl, sizes, fresh);
    return true;
  }
  const std::shared_ptr<Slot>& slot = impl_of(fresh)->slot;
  inputs_.replace(impl->slot, slot);
  impl->become(sizes, fresh.strides(), 0, slot);
  return true;
}

// As in torch, the memory stays, longer if need be, and the tensor looks at its beginning: what was all of the
// memory before becomes a view of it, so that others see what is written now.
void Memory::resize_shared(IpuTensorImpl& impl, at::IntArrayRef sizes, const at::Tensor& fresh) {
  const std::shared_ptr<Slot> root = impl.slot;
  if (root->base->on_host) promote(root);
  const ir::Type before = value_of(root)->type();
  const int64_t had = before.elements(), needs = element_count(sizes), all = std::max(had, needs);
  const auto part = [&](const std::shared_ptr<Slot>& of, const ir::Type& type) {
    return view_slot(view_slot(of, Views::beginning({type.dtype, {type.elements()}})),
                     Views::reshaping(type));
  };
  auto whole = std::make_shared<Slot>();
  whole->base = root->base;
  ir::Value* flat = ops::build(builder_, "reshape", {root->value}, {{"shape", Shape{had}}});
  if (all > had)
    flat =
        ops::build(builder_, "pad", {flat}, {{"low", Shape{0}}, {"high", Shape{all - had}}, {"value", 0.0}});
  whole->value = flat;
  whole->generation = whole->base->generation;
  const std::shared_ptr<Slot> old = part(whole, before);
  root->parent = old->parent;
  root->step = old->step;
  const std::shared_ptr<Slot> seen = part(whole, {before.dtype, Shape(sizes.begin(), sizes.end())});
  seen->host = impl_of(fresh)->slot->host;
  impl.become(sizes, fresh.strides(), 0, seen);
}

// A CPU tensor is written with a value of the graph: from now on its whole memory is one.
const std::shared_ptr<Slot>& Memory::adopt(const at::Tensor& cpu) {
  WithoutCapture below;
  int64_t elements = static_cast<int64_t>(cpu.storage().nbytes() / cpu.element_size());
  auto root = std::make_shared<Slot>();
  root->base = std::make_shared<Base>();
  root->host = at::empty({0}, cpu.options()).set_(cpu.storage(), 0, {elements}, {1});
  kept_.push_back(cpu);
  promote(root);
  return storages_.emplace(cpu.storage().unsafeGetStorageImpl(), std::move(root)).first->second;
}

void Memory::promote(const std::shared_ptr<Slot>& slot) {
  const std::shared_ptr<Slot>& root = root_of(slot);
  ir::Value* value = constants_.value_of(root->host);
  enter_graph(root->base);
  root->value = value;
  root->generation = root->base->generation;
}

void Memory::enter_graph(const std::shared_ptr<Base>& base) {
  base->on_host = false;
  base->capture = capture_;
  base->body = body_being_captured();
  ++base->generation;
  promoted_.push_back(base);
}

void Memory::note_slice(const at::Tensor& t) {
  if (const std::shared_ptr<Slot> slot = slot_of(t)) slot->base->slice_line = current_user_line();
}

void Memory::settle_slice(const at::Tensor& t) {
  const std::shared_ptr<Slot> slot = slot_of(t);
  if (slot == nullptr || slot->base->slice_line.empty()) return;
  std::erase(written_slices_, slot->base);
}

void Memory::refuse_lost_writes() const {
  if (written_slices_.empty()) return;
  throw Error(ErrorCode::kCapture,
              "write to a slice at a run-time place: x[a:b] with tensors as bounds is a copy, and what is "
              "written to it does not reach x.\n"
              "  try:      x[a:b] = value or x[a:b] += value, or clone() the slice if x is to stay")
      .at(written_slices_.front()->slice_line);
}

void Memory::write(const at::Tensor& t, ir::Value* value) {
  std::shared_ptr<Slot> slot = slot_of(t);
  if (slot != nullptr && !slot->base->slice_line.empty() &&
      std::find(written_slices_.begin(), written_slices_.end(), slot->base) == written_slices_.end())
    written_slices_.push_back(slot->base);
  bool replaces_all = false;
  refuse_outer_write(slot == nullptr ? nullptr : slot->base.get());
  if (slot != nullptr) refuse_write_of_seen(*slot->base);
  if (slot == nullptr) {
    adopt(t);
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
  if (impl == nullptr || !impl->detached) ++slot->base->versions;
  bool unseen = builder_.settings.no_grad;
  if (impl == nullptr) {
    unseen = unseen || (slot->base->state >= 0 && !t.requires_grad());
  } else {
    if (impl->history != nullptr && !unseen) impl->history = value;
    const ModelTensor* state = states_.of(*impl);
    unseen = unseen || impl->detached || (state != nullptr && state->spec.trainable && !t.requires_grad());
  }
  const bool in_pass =
      !open_bodies_.empty() && passes_.contains(open_bodies_.back());  // never differentiated
  const bool has_gradient =
      (training_ && !in_pass) || t.requires_grad();  // the latter of a gradient in forward
  if (!has_gradient || !unseen || replaces_all || !is_floating_point(value->type().dtype))
    return write_slot(slot, value);
  const std::shared_ptr<Slot>& root = root_of(slot);
  ir::Value* before = value_of(root);
  write_slot(slot, value);
  write_slot(root, straight_through(before, root->value));
}

void Memory::write_slot(const std::shared_ptr<Slot>& slot, ir::Value* value) {
  Base& base = *slot->base;
  if (slot->parent == nullptr) {
    if (base.state >= 0 && slot->value == nullptr) value_of(slot);  // a written state is also an input
    slot->value = value;
    slot->generation = ++base.generation;
    return;
  }
  // The way back goes through the shape operators that make the view of its parent. A value written to the
  // view does not show them, so the view is made anew unless that has just been done.
  ir::Value* parent = value_of(slot->parent);
  ViewStep& step = *slot->step;
  if (!step.is_current(base.generation)) views_.look(step, parent, base.generation);
  write_slot(slot->parent, views_.write_back(step, slot->result, parent, value));
  slot->value = value;
  slot->generation = base.generation;
}

void Memory::open_body(bool is_pass) {
  static std::atomic<int64_t> last{0};
  open_bodies_.push_back(++last);
  if (is_pass) passes_.insert(open_bodies_.back());
  body_being_captured() = open_bodies_.back();
}

void Memory::close_body() {
  open_bodies_.pop_back();
  body_being_captured() = open_bodies_.empty() ? 0 : open_bodies_.back();
}

void Memory::refuse_left_behind(const Base& base) const {
  if (base.body == 0 || std::find(open_bodies_.begin(), open_bodies_.end(), base.body) != open_bodies_.end())
    return;
  if (passes_.contains(base.body))
    throw Error(
        ErrorCode::kCapture,
        "tensor of a backward pass: a tensor that the backward of a torch.autograd.Function made is read "
        "outside of it; the program computes it where the gradients are, once they are there.\n"
        "  try:      hand it on as a gradient, or compute it in forward, from torch.autograd.grad")
        .at(current_user_line());
  throw Error(
      ErrorCode::kCapture,
      "tensor of a body: a tensor that a body of poptorch.for_loop or poptorch.cond made is read after "
      "the body has ended, when there may be many of it, or none.\n"
      "  try:      return it from the body; results of the loop or branch can be read")
      .at(current_user_line());
}

// `base`: nullptr when it is memory of the host.
void Memory::refuse_outer_write(const Base* base) const {
  if (open_bodies_.empty() || (base != nullptr && base->body == open_bodies_.back())) return;
  std::string what = "a tensor from outside of it";
  if (base == nullptr) what = "a tensor of the CPU";
  if (base != nullptr && base->state >= 0) {
    what = states_[base->state].described();
  }
  if (passes_.contains(open_bodies_.back()))
    throw Error(ErrorCode::kCapture,
                "write to an outer tensor: the backward of a torch.autograd.Function writes " + what +
                    " in place; it may write what it makes itself.\n"
                    "  try:      write a clone(); write buffers in forward, with what "
                    "torch.autograd.grad gives there")
        .at(current_user_line());
  throw Error(
      ErrorCode::kCapture,
      "write to an outer tensor: a body of poptorch.for_loop or poptorch.cond writes " + what +
          " in place; a body may write its arguments and what it makes itself.\n"
          "  try:      pass it as an argument, return its new value, and write that after the loop or "
          "branch")
      .at(current_user_line());
}

void Memory::refuse_write_of_seen(const Base& base) const {
  if (base.state < 0) return;
  const auto seen = seen_.find(static_cast<size_t>(base.state));
  if (seen == seen_.end()) return;
  const StateSpec& state = states_[base.state].spec;
  throw Error(
      ErrorCode::kValueNeeded,
      "value needed: forward() writes the buffer '" + state.name +
          "', whose value it has used as a Python number, a size or a mask" +
          (seen->second.empty() ? "" : " at " + seen->second) +
          ". forward() runs once, so that every call would go on with the first value.\n"
          "  try:      torch.where or poptorch.cond for what depends on it; or keep it on the host and "
          "pass it as an input")
      .at(current_user_line());
}

void Memory::leave() {
  if (!open_bodies_.empty()) body_being_captured() = 0;
  open_bodies_.clear();
  for (const std::shared_ptr<Base>& base : promoted_) {
    base->on_host = true;
    base->capture = 0;
  }
  promoted_.clear();
}

}  // namespace ipu::frontends::torch_frontend
