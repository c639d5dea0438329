// The operators of library "poptorch": on CPU tensors the documented identity or reduction, on ipu tensors
// captured by the boxed kernel like all others.
#include <ATen/ops/alias.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "frontends/torch/capture/operators/op_info.h"

namespace ipu::frontends::torch_frontend {
namespace {

at::Tensor identity_loss(const at::Tensor& x, c10::string_view reduction) {
  if (reduction == "sum") return x.sum();
  if (reduction == "mean") return x.mean();
  TORCH_CHECK_VALUE(reduction == "none", "identity_loss: reduction must be \"sum\", \"mean\" or \"none\"");
  return x.alias();
}

at::Tensor identity(const at::Tensor& x) { return x.alias(); }

at::Tensor overlap_mark(const at::Tensor& x, c10::string_view, c10::string_view) { return x.alias(); }

at::Tensor overlap_mark_meta(const at::Tensor& x, c10::string_view, c10::string_view) {
  return at::empty_like(x);
}

at::Tensor print_tensor(const at::Tensor& x, c10::string_view, bool, int64_t, int64_t, int64_t, int64_t,
                        c10::string_view, c10::string_view, c10::string_view, c10::string_view) {
  return x.alias();
}

at::Tensor print_tensor_meta(const at::Tensor& x, c10::string_view, bool, int64_t, int64_t, int64_t, int64_t,
                             c10::string_view, c10::string_view, c10::string_view, c10::string_view) {
  return at::empty_like(x);
}

at::Tensor identity_loss_meta(const at::Tensor& x, c10::string_view reduction) {
  return reduction == "none" ? at::empty_like(x) : at::empty({}, x.options());
}

at::Tensor identity_meta(const at::Tensor& x) { return at::empty_like(x); }

// What cannot be known from operands is shown by examples.
std::vector<at::Tensor> like_examples(at::TensorList examples) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& e : examples)
    results.push_back(at::empty(e.sizes(), e.options().device(c10::kMeta)));
  return results;
}

std::vector<at::Tensor> host_call_meta(at::TensorList, at::TensorList examples, c10::string_view,
                                       c10::string_view) {
  return like_examples(examples);
}
std::vector<at::Tensor> custom_op_meta(at::TensorList, at::TensorList examples, c10::string_view,
                                       c10::string_view) {
  return like_examples(examples);
}

}  // namespace

TORCH_LIBRARY(poptorch, m) {
  m.def("identity_loss(Tensor x, str reduction) -> Tensor");
  m.def("nop(Tensor x) -> Tensor");
  m.def("recomputation_checkpoint(Tensor x) -> Tensor");
  m.def("overlap_mark(Tensor x, str direction, str mode) -> Tensor");
  m.def(
      "print_tensor(Tensor x, str title, bool print_gradient, int summarise_threshold, int edge_items, "
      "int max_line_width, int digits, str float_format, str separator, str open_bracket, "
      "str close_bracket) -> Tensor");
  m.def("host_call(Tensor[] inputs, Tensor[] examples, str function, str backward) -> Tensor[]");
  m.def("custom_op(Tensor[] inputs, Tensor[] examples, str operator, str attributes) -> Tensor[]");
}

// Differentiable on the CPU: composites of differentiable operators.
TORCH_LIBRARY_IMPL(poptorch, CompositeImplicitAutograd, m) {
  m.impl("identity_loss", identity_loss);
  m.impl("nop", identity);
  m.impl("recomputation_checkpoint", identity);
  m.impl("overlap_mark", overlap_mark);
  m.impl("print_tensor", print_tensor);
}

TORCH_LIBRARY_IMPL(poptorch, PrivateUse1, m) {
  for (const char* name : {"identity_loss", "nop", "recomputation_checkpoint", "overlap_mark", "print_tensor",
                           "host_call", "custom_op"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&capture_kernel>());
  }
}

TORCH_LIBRARY_IMPL(poptorch, Meta, m) {
  m.impl("identity_loss", identity_loss_meta);
  m.impl("nop", identity_meta);
  m.impl("recomputation_checkpoint", identity_meta);
  m.impl("overlap_mark", overlap_mark_meta);
  m.impl("print_tensor", print_tensor_meta);
  m.impl("host_call", host_call_meta);
  m.impl("custom_op", custom_op_meta);
}

}  // namespace ipu::frontends::torch_frontend
