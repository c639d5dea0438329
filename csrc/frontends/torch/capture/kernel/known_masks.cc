#include "frontends/torch/capture/kernel/known_masks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/index.h>

#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/capture/operators/stack.h"

namespace ipu::frontends::torch_frontend {
namespace {

bool is_mask(const at::Tensor& t) {
  return t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
}

// One tensor of integers per dimension of the mask.
std::vector<at::Tensor> indices_of(const at::Tensor& mask) {
  WithoutCapture below;
  std::vector<at::Tensor> columns = mask.nonzero().unbind(1);
  for (at::Tensor& column : columns) column = column.contiguous();
  return columns;
}

}  // namespace

void settle_known_masks(Capture& c, const OpInfo& info, torch::jit::Stack* stack) {
  const bool needs_places = info.overload == "index.Tensor";  // the shape of the result depends on them
  for (size_t i = stack->size() - info.arguments(); i < stack->size(); ++i) {
    if (!(*stack)[i].isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> settled;
    for (const c10::IValue& entry : (*stack)[i].toListRef()) {
      const at::Tensor index = entry.isTensor() ? entry.toTensor() : at::Tensor();
      at::Tensor known;
      if (is_mask(index) && index.dim() > 0)
        known = needs_places ? c.memory().known_value(index) : c.memory().host_value(index);
      if (known.defined()) {
        for (const at::Tensor& column : indices_of(known)) settled.push_back(column);
      } else {
        settled.push_back(index.defined() ? std::optional(index) : std::nullopt);
      }
    }
    (*stack)[i] = settled;
  }
}

bool settle_known_values(Capture& c, const OpInfo& info, torch::jit::Stack* stack) {
  bool all_known = true;
  torch::jit::Stack settled;
  for (size_t i = stack->size() - info.arguments(); i < stack->size(); ++i) {
    settled.push_back(map_tensors((*stack)[i], [&](const at::Tensor& t) {
      const at::Tensor known = all_known ? c.memory().known_value(t) : at::Tensor();
      all_known = all_known && known.defined();
      return known.defined() ? wrap_host(known) : t;
    }));
  }
  if (!all_known) return false;
  torch::jit::drop(*stack, info.arguments());
  stack->insert(stack->end(), settled.begin(), settled.end());
  return true;
}

bool select_by_known_mask(Capture& c, const OpInfo& info, torch::jit::Stack* stack) {
  if (info.overload != "masked_select") return false;
  const at::Tensor self = torch::jit::peek(*stack, 0, 2).toTensor();
  at::Tensor mask = c.memory().known_value(torch::jit::peek(*stack, 1, 2).toTensor());
  if (!mask.defined()) return false;
  const std::vector<int64_t> shape = at::infer_size(self.sizes(), mask.sizes());
  {
    WithoutCapture below;
    mask = mask.expand(shape).reshape(shape.empty() ? std::vector<int64_t>{1} : shape);
  }
  const at::Tensor whole = self.expand(shape);
  const at::Tensor selected = at::index(shape.empty() ? whole.reshape({1}) : whole, {mask});
  torch::jit::drop(*stack, 2);
  stack->emplace_back(selected);
  return true;
}

}  // namespace ipu::frontends::torch_frontend
