// Tensors that forward() gives other memory (`.data = ...`, set_) or another view of theirs (t_()). Gradients of a
// tensor stay its own, whatever memory it looks at. For a parameter or buffer of the model what it looks at when
// forward() ends is its new value.
#include <utility>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/memory/memory.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Elements of its memory from the first one `t` shows to behind the last one.
std::pair<int64_t, int64_t> range_of(const at::Tensor& t) {
  int64_t end = t.storage_offset() + 1;
  for (int64_t d = 0; d < t.dim(); ++d) end += (t.size(d) - 1) * t.stride(d);
  return {t.storage_offset(), t.numel() == 0 ? t.storage_offset() : end};
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto [a_begin, a_end] = range_of(a);
  const auto [b_begin, b_end] = range_of(b);
  return a_begin < b_end && b_begin < a_end;
}

std::string type_text(at::ScalarType dtype, at::IntArrayRef shape) {
  return std::string(c10::toString(dtype)) + to_string(std::span<const int64_t>(shape.data(), shape.size()));
}

[[noreturn]] void refuse(const ModelTensor& state, const std::string& text) {
  throw Error(ErrorCode::kCapture, text).at(state.moved_at);
}

[[noreturn]] void refuse_type(const ModelTensor& state) {
  const at::Tensor& now = state.counterpart;
  refuse(state, "another shape or type: forward() makes " + state.described() + " " +
                    type_text(now.scalar_type(), now.sizes()) + ", and the device keeps it as " +
                    type_text(state.spec.dtype, state.spec.shape) +
                    ".\n  try:      register it as it shall be before wrapping, or a variable of its own in "
                    "forward()");
}

}  // namespace

void Memory::require_movable(const IpuTensorImpl& impl) {
  const ModelTensor* state = states_.of(impl);
  if (state == nullptr) return;
  refuse_outer_write(state->slot->base.get());
  refuse_write_of_seen(*state->slot->base);
}

void Memory::keep_history(IpuTensorImpl& impl) {
  if (ModelTensor* state = states_.of(impl)) {
    state->moved_at = current_user_line();
  } else {
    const at::Tensor t(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(&impl));
    if (t.requires_grad() && !t.is_leaf() && is_graph_value(t)) impl.history = read(t);
  }
  impl.detached = true;
}

void Memory::note_view(const IpuTensorImpl& impl) {
  if (ModelTensor* state = states_.of(impl)) state->moved_at = current_user_line();
}

// What a parameter that requires a gradient reads as while the memory it looks at holds `value`: one value for all
// reads, so that gradients inside forward find it.
ir::Value* Memory::read_parameter(ModelTensor& state, ir::Value* value) {
  ir::Value* target = gradient_target(state, value);
  if (target == value) return value;
  if (std::exchange(state.moved_value, value) != value) {
    const char* as_own = impl_of(state.counterpart)->detached ? "detach" : "nop";
    state.reads_as =
        target == nullptr ? ops::build(builder_, as_own, {value}) : straight_through(target, value);
  }
  return state.reads_as;
}

// Where gradients of parameter `state`, which holds `value`, go; nullptr: to what it reads as.
ir::Value* Memory::gradient_target(const ModelTensor& state, ir::Value* value) {
  if (!state.is_moved()) return value;
  ir::Value* own = value_of(state.slot);
  if (own->type() == value->type()) return own;
  if (state.spec.trainable && impl_of(state.counterpart)->slot->base != state.slot->base) refuse_type(state);
  return nullptr;
}

void Memory::refuse_shared(const ModelTensor& state) const {
  const std::string name = state.described();
  const Base* base = impl_of(state.counterpart)->slot->base.get();
  const std::string cure = "\n  try:      self.x.copy_(value), or .data = value.clone()";
  for (const ModelTensor& other : states_) {
    if (&other == &state || impl_of(other.counterpart)->slot->base.get() != base) continue;
    if (overlap(state.counterpart, other.counterpart))
      refuse(state, "shared memory: forward() gives " + name + " the memory of " + other.described() +
                        " (.data = ..., set_), and the device keeps a value for each of them." + cure);
  }
  const bool is_written = state.is_written();
  const bool lives_on = inputs_.is_memory_of_one(base) || (base->on_host && base->capture != capture_);
  if (lives_on && (is_written || (base->on_host && state.spec.trainable)))
    refuse(state,
           "shared memory: forward() gives " + name +
               " the memory of a tensor from outside of it (.data = ..., set_) and changes it in place, "
               "which that tensor cannot follow." +
               cure);
}

void Memory::settle_states() {
  std::vector<std::pair<std::shared_ptr<Slot>, ir::Value*>> changed;
  for (const ModelTensor& state : states_) {
    if (!state.is_moved()) continue;
    const at::Tensor& now = state.counterpart;
    if (now.scalar_type() != state.spec.dtype || now.sizes() != at::IntArrayRef(state.spec.shape))
      refuse_type(state);
    refuse_shared(state);
    changed.emplace_back(state.slot, value_of(impl_of(now)->slot));
  }
  for (const auto& [slot, value] : changed) write_slot(slot, value);
}

}  // namespace ipu::frontends::torch_frontend
