#include "frontends/torch/capture/gradients/inner_gradients.h"

#include <ATen/core/grad_mode.h>

#include "autodiff/in_graph.h"
#include "frontends/common/step_builder.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/gradients/gradient_node.h"
#include "ops/definition/op_def.h"

namespace ipu::frontends::torch_frontend {
namespace {

const OpInfo& identity_op() {
  static const OpInfo& info = *find_op_info("poptorch::nop", "");
  return info;
}

}  // namespace

Memory& InnerGradients::memory() { return capture_.memory(); }
ir::Builder& InnerGradients::builder() { return capture_.builder(); }

std::vector<at::Tensor> InnerGradients::of(const std::vector<at::Tensor>& outputs,
                                           const std::vector<at::Tensor>& upstream,
                                           const std::vector<at::Tensor>& inputs, bool create_graph,
                                           bool keep_graph, const CustomPasses::Backward& backward) {
  capture_.require_supported();
  capture_.start_op(identity_op());
  builder().settings.no_grad = builder().settings.no_grad || !create_graph;
  std::vector<std::pair<ir::Value*, ir::Value*>> provided;
  std::vector<at::Tensor> sources(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!upstream[i].defined()) continue;
    ir::Value* value = memory().read(outputs[i]);
    provided.emplace_back(value, value_for_gradient(capture_, upstream[i], outputs[i]));
    if (value->producer() != nullptr && ops::has_trait(*value->producer(), ops::kLoss))
      value->producer()->settings.outline.set(kInnerLoss, keep_graph);
    sources.push_back(upstream[i]);
  }
  std::vector<ir::Value*> required;
  for (const at::Tensor& t : inputs) required.push_back(memory().read(t));
  const std::vector<ir::Value*> found =
      autodiff::gradients_in_graph(builder(), provided, required, passes_.inside_forward(backward));
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.emplace_back();
    if (found[i] == nullptr) continue;
    results.back() = memory().new_tensor(contiguous_like(inputs[i]), found[i]);
    if (create_graph) {
      sources.push_back(inputs[i]);
      attach_gradient(sources, results.back());
    }
  }
  return results;
}

}  // namespace ipu::frontends::torch_frontend
