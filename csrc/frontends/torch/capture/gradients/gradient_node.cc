#include "frontends/torch/capture/gradients/gradient_node.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/errors.h"

namespace ipu::frontends::torch_frontend {
namespace {

struct CapturedNode final : torch::autograd::Node {
  std::string name() const override { return "IpuCaptured"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    Error error(
        ErrorCode::kCapture,
        "backward inside forward: .backward() and torch.autograd.grad cannot run while a model is captured; "
        "gradients are computed by the IPU program.\n"
        "  try:      return the loss and wrap the model with poptorch.trainingModel");
    raise_through_torch(error.at(current_user_line()));
  }
};

}  // namespace

void attach_gradient(at::ArrayRef<at::Tensor> inputs, const at::Tensor& result, bool always) {
  if (!at::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) return;
  if (!result.defined() || impl_of(result) == nullptr) return;
  if (!at::isFloatingType(result.scalar_type()) && !at::isComplexType(result.scalar_type())) return;
  c10::intrusive_ptr<CapturedNode> node;
  if (always) node = c10::make_intrusive<CapturedNode>();
  for (const at::Tensor& t : inputs) {
    if (!t.defined() || !t.requires_grad() || (t.is_same(result) && t.is_leaf())) continue;
    if (!node) node = c10::make_intrusive<CapturedNode>();
    node->add_next_edge(torch::autograd::impl::gradient_edge(t));
  }
  if (!node || (result.is_leaf() && result.requires_grad())) return;
  uint32_t number = node->add_input_metadata(result);
  torch::autograd::impl::set_gradient_edge(result, torch::autograd::Edge(node, number));
}

}  // namespace ipu::frontends::torch_frontend
