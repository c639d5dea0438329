// Host inputs of a capture: how they enter, and which of them forward() writes. Tensors that lie in the same
// memory are one tensor to forward(), as in torch, or an error that names both.
#include <algorithm>

#include "frontends/torch/capture/capture.h"
#include "frontends/torch/shared_memory.h"

namespace ipu::frontends::torch_frontend {

// An input that is an earlier one once more is a view of all of that, with a value of its own until somebody
// writes: a program that writes neither also serves calls with different tensors.
at::Tensor Capture::add_input(const std::string& name, const at::Tensor& example, const at::Tensor& whole) {
  IPU_CHECK(active_, "begin() comes before add_input()");
  DType dtype = required_device_dtype("input " + name, example.scalar_type());
  auto slot = std::make_shared<Slot>();
  slot->base = std::make_shared<Base>();
  slot->base->on_host = false;
  slot->base->capture = id_;
  slot->value = graph_->add_input({dtype, Shape(example.sizes().begin(), example.sizes().end())}, name);
  for (size_t i = 0; i < input_slots_.size() && slot->parent == nullptr; ++i) {
    if (input_slots_[i]->parent != nullptr || sharing_of(whole, input_tensors_[i]) != Sharing::kWhole)
      continue;
    slot->parent = input_slots_[i];
    slot->base = slot->parent->base;
    slot->step = std::make_shared<ViewStep>();
    slot->step->op = find_op_info("aten::view", "");
    slot->step->arguments = {c10::IValue(), c10::IValue(example.sizes().vec())};
    slot->step->types = {slot->value->type()};
  }
  slot->generation = slot->base->generation;
  inputs_.push_back({name, {example.sizes().begin(), example.sizes().end()}, example.scalar_type()});
  input_slots_.push_back(slot);
  input_values_.push_back(slot->value);
  input_tensors_.push_back(whole);
  Strides strides =
      contiguous_strides(std::span<const int64_t>(example.sizes().data(), example.sizes().size()));
  return make_tensor(example.sizes(), strides, 0, example.scalar_type(), slot);
}

void Capture::collect_written_inputs(Captured& result) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kCapture, "shared memory: forward() writes " + why +
                                         ".\n  try:      give one of them a copy, x.clone()");
  };
  const auto input = [&](size_t i) { return "input '" + inputs_[i].name + "'"; };
  for (size_t i = 0; i < input_slots_.size(); ++i) {
    if (input_slots_[i]->parent != nullptr) continue;  // written as the input it is once more
    ir::Value* value = read_slot(input_slots_[i]);
    const bool is_written = value != input_values_[i];
    for (const ModelTensor& s : states_) {
      const bool changes = is_written || (s.slot->value != nullptr && s.slot->value != s.input);
      if (changes && s.tensor.defined() && s.tensor.is_cpu() && s.tensor.has_storage() &&
          sharing_of(input_tensors_[i], s.tensor) != Sharing::kNone)
        refuse("memory in which both " + input(i) + " and " +
               (s.spec.is_parameter ? "parameter '" : "buffer '") + s.spec.name + "' lie");
    }
    if (!is_written) continue;
    // An output of its own, also for a value that is returned: every micro-batch of it comes back.
    MutatedInput written;
    written.input = static_cast<int>(i);
    written.output = graph_->append_output(value);
    written.shape = value->type().shape;
    for (size_t j = 0; j < input_slots_.size(); ++j) {
      if (j == i) continue;
      if (input_slots_[j]->parent == input_slots_[i])
        written.also.push_back(static_cast<int>(j));
      else if (sharing_of(input_tensors_[i], input_tensors_[j]) != Sharing::kNone)
        refuse(input(i) + ", which shares memory with " + input(j));
    }
    result.mutated_inputs.push_back(std::move(written));
  }
}

// The tensor gets memory of its own of another shape; whoever looks at the old memory would have to see it
// change.
bool Capture::resize(const at::Tensor& t, at::IntArrayRef sizes, const at::Tensor& fresh) {
  IpuTensorImpl* impl = impl_of(t);
  if (impl == nullptr || impl->slot->parent != nullptr || impl->slot->base->state >= 0 || impl->detached)
    return false;
  const auto input = std::find(input_slots_.begin(), input_slots_.end(), impl->slot);
  const long owners = input == input_slots_.end() ? 1 : 2;
  if (impl->slot.use_count() != owners || impl->slot->base.use_count() != 1) return false;
  const std::shared_ptr<Slot>& slot = impl_of(fresh)->slot;
  if (input != input_slots_.end()) *input = slot;
  impl->become(sizes, fresh.strides(), 0, slot);
  return true;
}

}  // namespace ipu::frontends::torch_frontend
