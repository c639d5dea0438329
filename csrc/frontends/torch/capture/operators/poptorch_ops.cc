// The operators of library "poptorch": on CPU tensors the documented identity or reduction, on ipu tensors
// captured by the boxed kernel like all others.
#include <ATen/ops/add.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/operators/op_info.h"
#include "frontends/torch/errors.h"

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

[[noreturn]] void refuse(const std::string& what, const std::string& cure) {
  Error error(ErrorCode::kTypeMismatch, "slice that cannot be: " + what + ".\n  try:      " + cure);
  raise_through_torch(error.at(current_user_line()));
}

// The extent of the dimension that is cut.
int64_t checked_length(const at::Tensor& x, int64_t dim, const at::Tensor& start, int64_t size) {
  if (dim < -x.dim() || dim >= x.dim())
    refuse("dimension " + std::to_string(dim) + " of a tensor of " + std::to_string(x.dim()),
           "a dimension that the tensor has");
  if (start.numel() != 1)
    refuse("start has " + std::to_string(start.numel()) + " elements", "a start of one element");
  if (size < 1) refuse("size " + std::to_string(size), "a size of at least 1");
  const int64_t length = x.size(dim);
  if (size > length)
    refuse("size " + std::to_string(size) + " along dimension " + std::to_string(dim) + ", which has " +
               std::to_string(length) + " elements",
           "a smaller size");
  return length;
}

int64_t checked_length(const at::Tensor& x, int64_t dim, const at::Tensor& start, int64_t size,
                       int64_t step) {
  const int64_t length = checked_length(x, dim, start, size);
  if (step < 1) refuse("step " + std::to_string(step), "a step of at least 1");
  if (length % size != 0)
    refuse("size " + std::to_string(size) + " does not divide the " + std::to_string(length) +
               " elements of dimension " + std::to_string(dim),
           "a size that divides them, or a padded tensor");
  return length;
}

// Places along a dimension of `length`, around its end.
at::Tensor places(const at::Tensor& start, int64_t size, int64_t step, int64_t length) {
  const at::Tensor from_start = at::arange(0, size, step, start.options().dtype(at::kLong));
  return at::remainder(at::add(start.reshape({1}).to(at::kLong), from_start), length);
}

at::Tensor dynamic_slice(const at::Tensor& x, int64_t dim, const at::Tensor& start, int64_t size,
                         int64_t step) {
  return at::index_select(x, dim, places(start, size, step, checked_length(x, dim, start, size, step)));
}

at::Tensor dynamic_slice_meta(const at::Tensor& x, int64_t dim, const at::Tensor& start, int64_t size,
                              int64_t step) {
  checked_length(x, dim, start, size, step);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.at(static_cast<size_t>(c10::maybe_wrap_dim(dim, x.dim()))) = (size + step - 1) / step;
  return at::empty(sizes, x.options());
}

// The same for what is to be replaced by `src`.
int64_t checked_length(const at::Tensor& x, const at::Tensor& src, int64_t dim, const at::Tensor& start,
                       int64_t size) {
  const int64_t length = checked_length(x, dim, start, size);
  std::vector<int64_t> wanted = x.sizes().vec();
  wanted[static_cast<size_t>(c10::maybe_wrap_dim(dim, x.dim()))] = size;
  if (src.sizes() != at::IntArrayRef(wanted))
    refuse("src has shape " + to_string(Shape(src.sizes().begin(), src.sizes().end())),
           "the shape of what is replaced, " + to_string(Shape(wanted.begin(), wanted.end())));
  return length;
}

at::Tensor dynamic_update(const at::Tensor& input, const at::Tensor& src, int64_t dim,
                          const at::Tensor& start, int64_t size) {
  return at::index_copy(input, dim, places(start, size, 1, checked_length(input, src, dim, start, size)),
                        src);
}

at::Tensor dynamic_update_meta(const at::Tensor& input, const at::Tensor& src, int64_t dim,
                               const at::Tensor& start, int64_t size) {
  checked_length(input, src, dim, start, size);
  return at::empty(input.sizes(), input.options());
}

at::Tensor indices(int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kInt));
}

at::Tensor nearest_meta(const at::Tensor& x, const at::Tensor&, const std::optional<at::Tensor>&,
                        const std::optional<at::Tensor>&) {
  return indices(x.size(0), x);
}

at::Tensor fps_meta(const at::Tensor& src, at::IntArrayRef, at::IntArrayRef counts, bool) {
  int64_t count = 0;
  for (const int64_t n : counts) count += n;
  return indices(count, src);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ctc_beam_search_meta(const at::Tensor& probs,
                                                                    const at::Tensor&, int64_t, int64_t,
                                                                    int64_t top_paths) {
  const int64_t samples = probs.size(1);
  const at::TensorOptions integers = probs.options().dtype(at::kInt);
  return {at::empty({samples, top_paths}, probs.options()), at::empty({samples, top_paths}, integers),
          at::empty({samples, top_paths, probs.size(0)}, integers)};
}

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
  m.def("dynamic_slice(Tensor x, int dim, Tensor start, int size, int step) -> Tensor");
  m.def("dynamic_update(Tensor input, Tensor src, int dim, Tensor start, int size) -> Tensor");
  m.def("nearest(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y) -> Tensor");
  m.def("fps(Tensor src, int[] ptr, int[] counts, bool random_start) -> Tensor");
  m.def(
      "ctc_beam_search(Tensor probs, Tensor lengths, int blank, int beam_width, int top_paths) -> (Tensor, "
      "Tensor, Tensor)");
  // Captured by bodies/bodies.h: the names of what is recorded.
  m.def("for_loop(Tensor[] inputs, int count) -> Tensor[]");
  m.def("cond(Tensor condition, Tensor[] inputs) -> Tensor[]");
}

// Differentiable on the CPU: composites of differentiable operators.
TORCH_LIBRARY_IMPL(poptorch, CompositeImplicitAutograd, m) {
  m.impl("identity_loss", identity_loss);
  m.impl("nop", identity);
  m.impl("recomputation_checkpoint", identity);
  m.impl("overlap_mark", overlap_mark);
  m.impl("print_tensor", print_tensor);
  m.impl("dynamic_slice", dynamic_slice);
  m.impl("dynamic_update", dynamic_update);
}

TORCH_LIBRARY_IMPL(poptorch, PrivateUse1, m) {
  for (const char* name :
       {"identity_loss", "nop", "recomputation_checkpoint", "overlap_mark", "print_tensor", "host_call",
        "custom_op", "dynamic_slice", "dynamic_update", "nearest", "fps", "ctc_beam_search"}) {
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
  m.impl("dynamic_slice", dynamic_slice_meta);
  m.impl("dynamic_update", dynamic_update_meta);
  m.impl("nearest", nearest_meta);
  m.impl("fps", fps_meta);
  m.impl("ctc_beam_search", ctc_beam_search_meta);
}

}  // namespace ipu::frontends::torch_frontend
