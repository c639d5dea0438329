#include "frontends/torch/capture/memory/states.h"

#include <utility>

#include "frontends/torch/device_key.h"

namespace ipu::frontends::torch_frontend {

void States::add(StateSpec spec, std::shared_ptr<Slot> slot, const at::Tensor& counterpart, bool updatable) {
  ModelTensor state;
  state.counterpart = counterpart;
  impl_of(counterpart)->state = static_cast<int>(states_.size());
  state.spec = std::move(spec);
  state.tensor = slot->host;
  state.slot = std::move(slot);
  state.updatable = updatable;
  states_.push_back(std::move(state));
}

ModelTensor* States::of(const IpuTensorImpl& counterpart) {
  if (counterpart.state < 0 || counterpart.state >= static_cast<int>(states_.size())) return nullptr;
  ModelTensor& state = states_[static_cast<size_t>(counterpart.state)];
  return state.counterpart.unsafeGetTensorImpl() == &counterpart ? &state : nullptr;
}

ir::Value* States::enter(size_t i) {
  ModelTensor& state = states_[i];
  DType dtype = *device_dtype(state.spec.dtype);
  state.input = graph_->add_input({dtype, Shape(state.spec.shape)}, state.spec.name);
  return state.input;
}

void States::append_outputs() {
  for (ModelTensor& s : states_) {
    s.spec.written = s.is_written();
    if (s.spec.written) s.spec.output = graph_->append_output(s.slot->value);
  }
}

void States::fold_integers(ir::Builder& builder, Constants& constants) {
  for (ModelTensor& s : states_) {
    if (s.input == nullptr || s.is_written() || s.updatable || at::isFloatingType(s.spec.dtype)) continue;
    if (s.slot->host.is_meta()) continue;  // a variable without a value
    ir::Builder first(graph_, graph_->ops().empty() ? nullptr : graph_->ops().front().get());
    std::swap(first, builder);
    builder.settings = {};
    ir::Value* value = constants.value_of(s.slot->host);
    std::swap(first, builder);
    s.input->replace_all_uses_with(value);
    graph_->erase_input(s.input->index());
    s.slot->value = s.input = nullptr;
  }
}

std::vector<StateSpec> States::specs() {
  std::vector<StateSpec> specs;
  for (ModelTensor& s : states_) {
    s.spec.used = s.input != nullptr || s.spec.written;
    if (s.input != nullptr) s.spec.input = s.input->index();
    specs.push_back(s.spec);
  }
  return specs;
}

}  // namespace ipu::frontends::torch_frontend
