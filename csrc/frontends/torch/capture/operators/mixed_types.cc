// See mixed_types.h.
#include "frontends/torch/capture/operators/mixed_types.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <unordered_map>

#include "frontends/torch/capture/operators/stack.h"

namespace ipu::frontends::torch_frontend {

MixedTypes mixed_types_of(const std::string& overload) {
  static const std::unordered_map<std::string, MixedTypes> table = [] {
    std::unordered_map<std::string, MixedTypes> t;
    for (const char* name :
         {"linear", "conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding",
          "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution",
          "_convolution", "prelu", "_prelu_kernel", "bilinear", "lstm.input", "gru.input", "rnn_tanh.input",
          "rnn_relu.input"})
      t[name] = MixedTypes::kFollowInput;
    for (const char* name : {"matmul", "mm", "bmm", "mv", "dot", "vdot", "addmm", "addmv", "baddbmm",
                             "addbmm", "addr", "einsum", "scaled_dot_product_attention"})
      t[name] = MixedTypes::kWidest;
    return t;
  }();
  auto found = table.find(overload);
  return found == table.end() ? MixedTypes::kAsTorch : found->second;
}

void settle_mixed_types(const OpInfo& info, torch::jit::Stack* stack) {
  if (info.mixed_types == MixedTypes::kAsTorch) return;
  const size_t first = stack->size() - info.arguments();
  // A mask has no say: attention takes the type of query, key and value.
  const size_t last = info.overload == "scaled_dot_product_attention" ? first + 3 : stack->size();
  std::optional<at::ScalarType> type;
  bool is_mixed = false;
  for (size_t i = first; i < last; ++i)
    for_each_tensor((*stack)[i], [&](const at::Tensor& t) {
      if (!at::isFloatingType(t.scalar_type())) return;
      if (!type)
        type = t.scalar_type();
      else if (*type != t.scalar_type())
        is_mixed = true;
      if (info.mixed_types == MixedTypes::kWidest) type = c10::promoteTypes(*type, t.scalar_type());
    });
  if (!is_mixed) return;
  for (size_t i = first; i < last; ++i)
    (*stack)[i] = map_tensors((*stack)[i], [&](const at::Tensor& t) {
      return at::isFloatingType(t.scalar_type()) && t.scalar_type() != *type ? t.to(*type) : t;
    });
}

}  // namespace ipu::frontends::torch_frontend
