#include "frontends/torch/capture/kernel/known_masks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/index.h>

#include "frontends/torch/capture/memory/without_capture.h"

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
  for (size_t i = stack->size() - info.arguments(); i < stack->size(); ++i) {
    if (!(*stack)[i].isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> settled;
    for (const c10::IValue& entry : (*stack)[i].toListRef()) {
      const at::Tensor index = entry.isTensor() ? entry.toTensor() : at::Tensor();
      const at::Tensor known =
          is_mask(index) && index.dim() > 0 ? c.memory().host_value(index) : at::Tensor();
      if (known.defined()) {
        for (const at::Tensor& column : indices_of(known)) settled.push_back(column);
      } else {
        settled.push_back(index.defined() ? std::optional(index) : std::nullopt);
      }
    }
    (*stack)[i] = settled;
  }
}

bool select_by_known_mask(Capture& c, const OpInfo& info, torch::jit::Stack* stack) {
  if (info.overload != "masked_select") return false;
  const at::Tensor self = torch::jit::peek(*stack, 0, 2).toTensor();
  at::Tensor mask = c.memory().host_value(torch::jit::peek(*stack, 1, 2).toTensor());
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
