#include "frontends/torch/capture/memory/inputs.h"

#include <algorithm>

#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/capture/memory/memory.h"
#include "frontends/torch/shared_memory.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {

// An input that is an earlier one once more is a view of all of that, with a value of its own until somebody
// writes: a program that writes neither also serves calls with different tensors.
at::Tensor Inputs::add(const std::string& name, const at::Tensor& example, const at::Tensor& whole) {
  DType dtype = required_device_dtype("input " + name, example.scalar_type());
  ir::Value* value = graph_->add_input({dtype, Shape(example.sizes().begin(), example.sizes().end())}, name);
  auto same = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) {
    return i.slot->parent == nullptr && sharing_of(whole, i.whole) == Sharing::kWhole;
  });
  std::shared_ptr<Slot> slot;
  if (same == inputs_.end()) {
    slot = graph_slot(capture_, value);
  } else {
    slot = view_slot(same->slot, Views::reshaping(value->type()));
    slot->value = value;
    slot->generation = slot->base->generation;
  }
  inputs_.push_back(
      {{name, {example.sizes().begin(), example.sizes().end()}, example.scalar_type()}, slot, value, whole});
  Strides strides =
      contiguous_strides(std::span<const int64_t>(example.sizes().data(), example.sizes().size()));
  return make_tensor(example.sizes(), strides, 0, example.scalar_type(), slot);
}

int Inputs::with_value(const ir::Value* value) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].value == value) return static_cast<int>(i);
  return -1;
}

bool Inputs::holds(const std::shared_ptr<Slot>& slot) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.slot == slot; });
}

void Inputs::replace(const std::shared_ptr<Slot>& slot, const std::shared_ptr<Slot>& by) {
  auto input = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.slot == slot; });
  if (input != inputs_.end()) input->slot = by;
}

std::vector<MutatedInput> Inputs::collect_written(Memory& memory, const States& states) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kCapture, "shared memory: forward() writes " + why +
                                         ".\n  try:      give one of them a copy, x.clone()");
  };
  const auto input = [&](size_t i) { return "input '" + inputs_[i].spec.name + "'"; };
  std::vector<MutatedInput> mutated;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].slot->parent != nullptr) continue;  // written as the input it is once more
    ir::Value* value = memory.value_of(inputs_[i].slot);
    const bool is_written = value != inputs_[i].value;
    for (const ModelTensor& s : states) {
      if ((is_written || s.is_written()) && s.tensor.defined() && s.tensor.is_cpu() &&
          s.tensor.has_storage() && sharing_of(inputs_[i].whole, s.tensor) != Sharing::kNone)
        refuse("memory in which both " + input(i) + " and " +
               (s.spec.is_parameter ? "parameter '" : "buffer '") + s.spec.name + "' lie");
    }
    if (!is_written) continue;
    // An output of its own, also for a value that is returned: every micro-batch of it comes back.
    MutatedInput written;
    written.input = static_cast<int>(i);
    written.output = graph_->append_output(value);
    written.shape = value->type().shape;
    for (size_t j = 0; j < inputs_.size(); ++j) {
      if (j == i) continue;
      if (inputs_[j].slot->parent == inputs_[i].slot)
        written.also.push_back(static_cast<int>(j));
      else if (sharing_of(inputs_[i].whole, inputs_[j].whole) != Sharing::kNone)
        refuse(input(i) + ", which shares memory with " + input(j));
    }
    mutated.push_back(std::move(written));
  }
  return mutated;
}

std::vector<InputSpec> Inputs::specs() const {
  std::vector<InputSpec> specs;
  for (const Input& i : inputs_) specs.push_back(i.spec);
  return specs;
}

}  // namespace ipu::frontends::torch_frontend
