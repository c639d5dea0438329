#include "frontends/torch/capture/memory/inputs.h"

#include <algorithm>
#include <optional>

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
  Strides strides =
      contiguous_strides(std::span<const int64_t>(example.sizes().data(), example.sizes().size()));
  at::Tensor symbolic = make_tensor(example.sizes(), strides, 0, example.scalar_type(), slot);
  inputs_.push_back({{name, {example.sizes().begin(), example.sizes().end()}, example.scalar_type()},
                     slot,
                     value,
                     whole,
                     symbolic});
  return symbolic;
}

int Inputs::with_value(const ir::Value* value) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].value == value) return static_cast<int>(i);
  return -1;
}

bool Inputs::holds(const std::shared_ptr<Slot>& slot) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.slot == slot; });
}

bool Inputs::is_memory_of_one(const Base* base) const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const Input& i) { return i.slot->base.get() == base; });
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
        refuse("memory in which both " + input(i) + " and " + s.described() + " lie");
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

namespace {

// Which dimension of contiguous `from` each dimension of `t`, a view of its memory, is: they have the same
// stride. nullopt: other elements, or another order of them than dimensions can have.
std::optional<std::vector<int64_t>> dimensions_of(const at::Tensor& t, const Shape& from) {
  const Strides strides = contiguous_strides(from);
  std::vector<int64_t> dims;
  size_t found = 0;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) == 1) {
      dims.push_back(-1);
      continue;
    }
    size_t of = 0;
    while (of < from.size() && (from[of] != t.size(d) || strides[of] != t.stride(d) ||
                                std::find(dims.begin(), dims.end(), static_cast<int64_t>(of)) != dims.end()))
      ++of;
    if (of == from.size()) return std::nullopt;
    dims.push_back(static_cast<int64_t>(of));
    ++found;
  }
  const auto wide = std::count_if(from.begin(), from.end(), [](int64_t size) { return size != 1; });
  if (t.storage_offset() != 0 || found != static_cast<size_t>(wide)) return std::nullopt;
  return dims;
}

}  // namespace

std::vector<MovedInput> Inputs::collect_moved(Memory& memory) const {
  std::vector<MovedInput> moved;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    const Slot* seen = impl_of(input.symbolic)->slot.get();
    if (seen == input.slot.get()) continue;
    while (seen != nullptr && seen != input.slot.get()) seen = seen->parent.get();
    std::optional<std::vector<int64_t>> dims;
    if (seen != nullptr) dims = dimensions_of(input.symbolic, memory.value_of(input.slot)->type().shape);
    if (!dims)
      throw Error(ErrorCode::kCapture,
                  "other memory of an input: forward() makes input '" + input.spec.name +
                      (seen == nullptr ? "' a name of other memory (x.data = ..., x.set_(...))"
                                       : "' look at its memory in another order (x.as_strided_(...))") +
                      ", which the caller's tensor cannot follow.\n"
                      "  try:      x.copy_(value), or a variable of its own in forward()");
    moved.push_back({static_cast<int>(i), *std::move(dims)});
  }
  return moved;
}

std::vector<InputSpec> Inputs::specs() const {
  std::vector<InputSpec> specs;
  for (const Input& i : inputs_) specs.push_back(i.spec);
  return specs;
}

}  // namespace ipu::frontends::torch_frontend
