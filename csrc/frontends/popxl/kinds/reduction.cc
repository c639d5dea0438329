// Reductions over axes (attributes axes, keepdims), argmax and argmin. Halves are squared and exponentiated in f32.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

bool keeps_dims(const LowerCall& c) { return flag(c.attributes(), "keepdims", false); }

ir::Value* reduced(LowerCall& c, std::string_view kind, ir::Value* x) {
  return c.reduce(kind, x, axes_of(c.attributes(), x->type().shape.size()), keeps_dims(c));
}

ir::Value* widened(LowerCall& c, ir::Value* x) {
  return x->type().dtype == DType::kF16 ? c.cast(x, DType::kF32) : x;
}

// A value of the shape of the result, of the gradient op, as one that broadcasts to the shape of the input.
ir::Value* with_kept_dims(LowerCall& c, ir::Value* y, Shape shape) {
  for (const int64_t axis : axes_of(c.attributes(), shape.size())) shape[axis] = 1;
  return c.reshape(y, std::move(shape));
}

Shape result_shape(const Attributes& attributes, const Shape& shape) {
  const std::vector<int64_t> axes = axes_of(attributes, shape.size());
  const bool keep = flag(attributes, "keepdims", false);
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (!is_reduced || keep) result.push_back(is_reduced ? 1 : shape[d]);
  }
  return result;
}
// Infers the types of reductions that lower to many ops of the IR. Building those ops for their types alone would take
// longer than the rest of the inference.
void infer_reduction(InferCall& c) {
  c.set_output(0, {c.input(0).dtype, result_shape(c.attributes(), c.input(0).shape), {}});
}
void infer_float_reduction(InferCall& c) {
  const TensorInfo& x = c.input(0);
  const std::optional<DType> dtype = on_device(x.dtype);
  if (dtype != DType::kF32 && dtype != DType::kF16)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("dtype mismatch: {} takes float32 and float16, not {}",
                                                      c.op().kind().type, to_string(x)));
  infer_reduction(c);
}

auto to_ir(std::string kind) {
  return [kind = std::move(kind)](LowerCall& c) { c.set_output(0, reduced(c, kind, c.input(0))); };
}

const KindRegistration sum_kind = define_kind("ReduceSum").gradient().lower(to_ir("reduce_sum"));
const KindRegistration prod_kind = define_kind("ReduceProd").gradient({in(0)}).lower(to_ir("reduce_prod"));
const KindRegistration max_kind =
    define_kind("ReduceMax").gradient({in(0), out(0)}).lower(to_ir("reduce_max"));
const KindRegistration min_kind =
    define_kind("ReduceMin").gradient({in(0), out(0)}).lower(to_ir("reduce_min"));

// The mean of integers is their sum, divided towards zero.
const KindRegistration mean_kind = define_kind("ReduceMean").gradient().lower([](LowerCall& c) {
  ir::Value* x = c.input(0);
  if (is_floating_point(x->type().dtype)) return c.set_output(0, reduced(c, "reduce_mean", x));
  int64_t count = 1;
  for (const int64_t axis : axes_of(c.attributes(), x->type().shape.size())) count *= x->type().shape[axis];
  c.set_output(0,
               c.build("div", {reduced(c, "reduce_sum", x), c.scalar_like(x, static_cast<double>(count))}));
});

const KindRegistration l1_kind = define_kind("ReduceL1").gradient({in(0)}).lower([](LowerCall& c) {
  c.set_output(0, reduced(c, "reduce_sum", c.build("abs", {c.input(0)})));
});

ir::Value* sum_of_squares(LowerCall& c) {
  ir::Value* x = widened(c, c.input(0));
  return reduced(c, "reduce_sum", c.build("mul", {x, x}));
}
const KindRegistration sum_square_kind =
    define_kind("ReduceSumSquare").gradient({in(0)}).lower([](LowerCall& c) {
      c.set_output(0, c.cast(sum_of_squares(c), c.type(0).dtype));
    });

// dy * x / y, and 0 where the norm is 0, as torch has it.
void l2_gradient(LowerCall& c) {
  ir::Value* x = widened(c, c.forward_input(0));
  ir::Value* y = with_kept_dims(c, widened(c, c.forward_output(0)), x->type().shape);
  ir::Value* dy = with_kept_dims(c, widened(c, c.upstream(0)), x->type().shape);
  ir::Value* zero = c.scalar_like(y, 0.0);
  ir::Value* is_zero = c.build("equal", {y, zero});
  ir::Value* share = c.build("div", {dy, c.build("where", {is_zero, c.scalar_like(y, 1.0), y})});
  ir::Value* dx = c.build("mul", {x, c.build("where", {is_zero, zero, share})});
  c.set_gradient(0, c.cast(dx, c.forward_input_type(0).dtype));
}
const KindRegistration l2_kind =
    define_kind("ReduceL2")
        .gradient({in(0), out(0)})
        .infer(infer_float_reduction)
        .lower([](LowerCall& c) {
          c.set_output(0, c.cast(c.build("sqrt", {sum_of_squares(c)}), c.type(0).dtype));
        })
        .lower_gradient(l2_gradient);

// The sum is known by its logarithm alone.
void log_sum_gradient(LowerCall& c) {
  const ir::Type x = c.forward_input_type(0);
  ir::Value* inverse = c.build("exp", {c.build("neg", {widened(c, c.forward_output(0))})});
  ir::Value* dx = c.build("mul", {widened(c, c.upstream(0)), inverse});
  c.set_gradient(0, c.expand(c.cast(with_kept_dims(c, dx, x.shape), x.dtype), x.shape));
}
const KindRegistration log_sum_kind = define_kind("ReduceLogSum")
                                          .late_types(LateTypes::kFloats)
                                          .gradient({out(0)})
                                          .infer(infer_reduction)
                                          .lower([](LowerCall& c) {
                                            ir::Value* sum = reduced(c, "reduce_sum", widened(c, c.input(0)));
                                            c.set_output(0, c.cast(c.build("log", {sum}), c.type(0).dtype));
                                          })
                                          .lower_gradient(log_sum_gradient);

// log(sum(exp(x - m))) + m with the largest element m, or 0 where that is infinite.
void log_sum_exp(LowerCall& c) {
  ir::Value* x = widened(c, c.input(0));
  const std::vector<int64_t> axes = axes_of(c.attributes(), x->type().shape.size());
  ir::Value* largest = c.reduce("reduce_max", x, axes, true);
  const double infinity = std::numeric_limits<double>::infinity();
  ir::Value* is_infinite = c.build("equal", {c.build("abs", {largest}), c.scalar_like(x, infinity)});
  ir::Value* shift = c.build("where", {is_infinite, c.scalar_like(x, 0.0), largest});
  ir::Value* sum = c.reduce("reduce_sum", c.build("exp", {c.build("sub", {x, shift})}), axes, true);
  ir::Value* y = c.build("add", {c.build("log", {sum}), shift});
  c.set_output(0, c.cast(c.reshape(y, result_shape(c.attributes(), c.shape(0))), c.type(0).dtype));
}
void log_sum_exp_gradient(LowerCall& c) {
  ir::Value* x = widened(c, c.forward_input(0));
  ir::Value* y = with_kept_dims(c, widened(c, c.forward_output(0)), x->type().shape);
  ir::Value* dy = with_kept_dims(c, widened(c, c.upstream(0)), x->type().shape);
  ir::Value* dx = c.build("mul", {c.build("exp", {c.build("sub", {x, y})}), dy});
  c.set_gradient(0, c.cast(dx, c.forward_input_type(0).dtype));
}
const KindRegistration log_sum_exp_kind = define_kind("ReduceLogSumExp")
                                              .late_types(LateTypes::kFloats)
                                              .gradient({in(0), out(0)})
                                              .infer(infer_reduction)
                                              .lower(log_sum_exp)
                                              .lower_gradient(log_sum_exp_gradient);

auto extreme_index(std::string kind) {
  return [kind = std::move(kind)](LowerCall& c) {
    const size_t rank = c.shape(0).size();
    if (rank == 0) c.refuse("a tensor without dimensions has no axis to look along");
    c.set_output(
        0,
        c.build(kind, {c.input(0)}, {{"dim", axis_of(c.attributes(), rank)}, {"keep_dims", keeps_dims(c)}}),
        DataType::kInt32);
  };
}
const KindRegistration argmax_kind = define_kind("ArgMax").id("ai.onnx", 11).lower(extreme_index("argmax"));
const KindRegistration argmin_kind = define_kind("ArgMin").id("ai.onnx", 11).lower(extreme_index("argmin"));

const CreatorRegistration reduction_creators = {{
    {"ReduceL1Op ReduceL2Op ReduceLogSumOp ReduceLogSumExpOp ReduceMaxOp ReduceMeanOp ReduceMinOp "
     "ReduceProdOp ReduceSumOp ReduceSumSquareOp",
     "opid axes:ints keepdims:bool settings"},
    {"ArgMaxOp ArgMinOp", "opid axis:int keepdims:bool settings"},
}};
const FunctionRegistration reduction_functions = {{
    {"ReduceSum", "sum(t, axis:axes>axes=None, keepdims:bool=False) -> sum_out", "Sum of the elements.",
     "rows = ops.sum(x, axis=1)  # x (2, 3) gives (2,)"},
    {"ReduceMean", "mean(t, axis:axes>axes=None, keepdims:bool=False) -> mean_out",
     "Arithmetic mean; of integers without its fraction.",
     "mean = ops.mean(x, axis=(0, 1), keepdims=True)  # x (2, 3) gives (1, 1)"},
    {"ReduceProd", "prod(t, axis:axes>axes=None, keepdims:bool=False) -> prod_out",
     "Product of the elements.", "product = ops.prod(x)"},
    {"ReduceMax", "max(t, axis:axes>axes=None, keepdims:bool=False) -> max_out",
     "The largest element; NaN if there is one. Equal ones share the gradient.",
     "largest = ops.max(x, axis=-1)"},
    {"ReduceMin", "min(t, axis:axes>axes=None, keepdims:bool=False) -> min_out",
     "The smallest element; NaN if there is one. Equal ones share the gradient.",
     "smallest = ops.min(x, axis=-1)"},
    {"ReduceSumSquare", "sumsquare(t, axis:axes>axes=None, keepdims:bool=False) -> sumsquare_out",
     "Sum of the squares.", "energy = ops.sumsquare(x)"},
    {"ReduceL1", "l1(t, axis:axes>axes=None, keepdims:bool=False) -> l1_out", "Sum of the magnitudes.",
     "penalty = ops.l1(weight)"},
    {"ReduceL2", "l2(t, axis:axes>axes=None, keepdims:bool=False) -> l2_out",
     "Square root of the sum of the squares, of a float tensor; its gradient is 0 where it is 0.",
     "norm = ops.l2(weight)"},
    {"ReduceLogSum", "logsum(t, axis:axes>axes=None, keepdims:bool=False) -> logsum_out",
     "Logarithm of the sum, of a float tensor.", "y = ops.logsum(probabilities, axis=1)"},
    {"ReduceLogSumExp", "logsumexp(t, axis:axes>axes=None, keepdims:bool=False) -> logsumexp_out",
     "Logarithm of the sum of the exponentials, of a float tensor, without overflow.",
     "y = ops.logsumexp(scores, axis=1)"},
    {"ArgMax", "argmax(t, dim:int>axis=0, keepdim:bool>keepdims=False) -> argmax_out",
     "int32 index of the first largest element along `dim`, which goes, or stays with size 1. No gradient.",
     "prediction = ops.argmax(scores, dim=1)  # (batch, classes) gives (batch,)"},
    {"ArgMin", "argmin(t, dim:int>axis=0, keepdim:bool>keepdims=False) -> argmin_out",
     "int32 index of the first smallest element along `dim`, which goes, or stays with size 1. No gradient.",
     "nearest = ops.argmin(distances, dim=1)"},
}};

}  // namespace
}  // namespace ipu::popxl
