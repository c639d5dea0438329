// Order and statistics: median, top k, cumulative sums, histogram, softmax, sums of squares for LAMB.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "frontends/popxl/kinds/indexing.h"
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// The reduced axes brought to the end and merged: [others, reduced].
struct Rows {
  std::vector<int64_t> permutation;
  Shape permuted;  // of the tensor
  Shape result;    // of the reduction
  int64_t rows = 1, size = 1;
};
Rows rows_of(const LowerCall& c, const Shape& shape) {
  const std::vector<int64_t> axes = axes_of(c.attributes(), shape.size());
  const bool keep = flag(c.attributes(), "keepdims", false);
  Rows r;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    (is_reduced ? r.size : r.rows) *= shape[d];
    if (!is_reduced) r.permutation.push_back(static_cast<int64_t>(d));
    if (keep || !is_reduced) r.result.push_back(is_reduced ? 1 : shape[d]);
  }
  r.permutation.insert(r.permutation.end(), axes.begin(), axes.end());
  for (const int64_t d : r.permutation) r.permuted.push_back(shape[d]);
  return r;
}

// The lower of two middle elements; NaN if there is one, as torch has it. Its index counts along the merged axes.
void median(LowerCall& c) {
  const Rows r = rows_of(c, c.shape(0));
  if (r.size == 0) c.refuse("there is no element to take the median of");
  ir::Value* x = c.reshape(c.transpose(c.input(0), r.permutation), {r.rows, r.size});
  ir::Op* sorted = c.build_op("sort", {x}, {{"dim", int64_t{1}}});
  const auto column = [&](int result, int64_t at) {
    return c.build("slice", {sorted->result(result)},
                   {{"starts", Shape{0, at}}, {"sizes", Shape{r.rows, 1}}, {"steps", Shape{1, 1}}});
  };
  const int64_t middle = (r.size - 1) / 2, last = r.size - 1;
  ir::Value *value = column(0, middle), *index = column(1, middle);
  if (is_floating_point(x->type().dtype)) {
    ir::Value* is_nan = c.build("is_nan", {column(0, last)});
    value = c.build("where", {is_nan, column(0, last), value});
    index = c.build("where", {is_nan, column(1, last), index});
  }
  c.set_output(0, c.reshape(value, r.result));
  c.set_output(1, c.reshape(index, r.result), DataType::kInt32);
}

void median_gradient(LowerCall& c) {
  const ir::Type x = c.forward_input_type(0);
  const Rows r = rows_of(c, x.shape);
  ir::Value* zeros = c.builder().splat({x.dtype, {r.rows, r.size}}, 0.0);
  ir::Value* index = c.reshape(c.forward_output(1), {r.rows, 1});
  ir::Value* dx =
      c.build("scatter", {zeros, index, c.reshape(c.upstream(0), {r.rows, 1})}, {{"dim", int64_t{1}}});
  std::vector<int64_t> back(r.permutation.size());
  for (size_t i = 0; i < back.size(); ++i) back[r.permutation[i]] = static_cast<int64_t>(i);
  c.set_gradient(0, c.transpose(c.reshape(dx, r.permuted), back));
}

const KindRegistration median_kind = define_kind("ReduceMedian")
                                         .graphcore()
                                         .gradient({out(1)})
                                         .index_output(1)
                                         .lower(median)
                                         .lower_gradient(median_gradient);

// Largest or smallest k along an axis, in order (`sorted` false leaves the order open).
const KindRegistration topk_kind =
    define_kind("TopK").gradient({out(1)}).index_output(1).lower([](LowerCall& c) {
      const int64_t axis = axis_of(c.attributes(), c.shape(0).size()), k = c.attributes().integer("k");
      const int64_t size = c.shape(0)[axis];
      if (k < 1 || k > size) c.refuse(fmt::format("k is {}; axis {} has {} elements", k, axis, size));
      ir::Op* sorted =
          c.build_op("sort", {c.input(0)},
                     {{"dim", axis}, {"descending", flag(c.attributes(), "largest", true)}, {"count", k}});
      c.set_output(0, sorted->result(0));
      c.set_output(1, sorted->result(1), DataType::kInt32);
    });

// The axis is an attribute, or the constant that is input 1.
int64_t cumsum_axis(const LowerCall& c) {
  const size_t rank = c.shape(0).size();
  if (c.attributes().has("axis")) return axis_of(c.attributes(), rank);
  if (c.op().forward != nullptr && c.op().forward->integers.contains(1))
    return axis_in(c.op().forward->integers.at(1), rank);
  const Tensor* axis = c.op().forward == nullptr ? c.op().input(1) : nullptr;
  if (axis == nullptr || axis->constant == nullptr || element_count(axis->info.shape) != 1 ||
      !is_integer(axis->constant->dtype))
    c.refuse("the axis has to be a constant integer (input 1)");
  return axis_in(first_integer(*axis->constant), rank);
}

const KindRegistration cumsum_kind =
    define_kind("CumSum").id("ai.onnx", 11).gradient({in(0)}).lower([](LowerCall& c) {
      const Shape& shape = c.shape(0);
      if (shape.empty()) c.refuse("a tensor without dimensions has no axis to sum along");
      const int64_t axis = cumsum_axis(c);
      const bool reverse = flag(c.attributes(), "reverse", false);
      ir::Value* y = c.build("cumsum", {c.input(0)}, {{"dim", axis}, {"reverse", reverse}});
      if (flag(c.attributes(), "exclusive", false) && shape[axis] > 0) {  // moved by one place, from a 0
        Shape starts(shape.size(), 0), sizes = shape, steps(shape.size(), 1), low(shape.size(), 0),
                                       high = low;
        sizes[axis] -= 1;
        starts[axis] = reverse ? 1 : 0;
        (reverse ? high : low)[axis] = 1;
        y = c.build("slice", {y}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
        y = c.build("pad", {y}, {{"low", low}, {"high", high}});
      }
      c.set_output(0, y);
    });

// Bin 0 is below levels[0], bin i from levels[i - 1] on and below levels[i], the last from the last level on.
const KindRegistration histogram_kind = define_kind("Histogram").graphcore().lower([](LowerCall& c) {
  const DType dtype = c.type(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16)
    c.refuse(fmt::format("the input is {}; it has to be float32 or float16", ipu::to_string(dtype)));
  const std::vector<double>& given = c.attributes().reals("levels");
  const auto count = static_cast<int64_t>(given.size());
  const std::vector<float> levels(given.begin(), given.end());
  ir::Value* bounds = c.builder().constant(ir::make_constant(DType::kF32, {count}, levels.data()));
  bounds = c.cast(c.cast(bounds, dtype), DType::kF32);  // as the input can have them
  ir::Value* x = c.cast(c.reshape(c.input(0), {c.type(0).elements()}), DType::kF32);
  if (flag(c.attributes(), "absolute_of_input", false)) x = c.build("abs", {x});
  ir::Value* bins = c.build("bucketize", {x, bounds}, {{"right", true}});
  ir::Value* ones = c.builder().splat({DType::kI32, x->type().shape}, 1.0);
  ir::Value* zeros = c.builder().splat({DType::kI32, {count + 1}}, 0.0);
  ir::Value* counts = c.build("scatter_add", {zeros, bins, ones}, {{"dim", int64_t{0}}});
  c.set_output(0, c.cast(counts, DType::kU32));
});

const KindRegistration lamb_square_kind =
    define_kind("LambSquare").graphcore().late_types(LateTypes::kFloats).lower([](LowerCall& c) {
      c.set_output(0, c.build("square_sum", {c.input(0)}));
    });

// Over all axes from `axis` to the last, as one.
Shape softmax_rows(const LowerCall& c, const Shape& shape) {
  if (shape.empty()) return {1};
  Shape rows{1, 1};
  const int64_t axis = axis_of(c.attributes(), shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) rows[static_cast<int64_t>(d) < axis ? 0 : 1] *= shape[d];
  return rows;
}
const KindRegistration softmax_kind =
    define_kind("Softmax")
        .id("ai.onnx", 11)
        .gradient({out(0)})
        .late_types(LateTypes::kFloats)
        .lower([](LowerCall& c) {
          const Shape& shape = c.shape(0);
          const Shape rows = softmax_rows(c, shape);
          const Attributes dim{{"dim", static_cast<int64_t>(rows.size()) - 1}};
          c.set_output(0, c.reshape(c.build("softmax", {c.reshape(c.input(0), rows)}, dim), shape));
        })
        .lower_gradient([](LowerCall& c) {
          const Shape shape = c.forward_input_type(0).shape;
          const Shape rows = softmax_rows(c, shape);
          ir::Value *y = c.reshape(c.forward_output(0), rows), *dy = c.reshape(c.upstream(0), rows);
          const Attributes dim{{"dim", static_cast<int64_t>(rows.size()) - 1}};
          c.set_gradient(0, c.reshape(c.build("softmax_gradient", {y, dy}, dim), shape));
        });

const CreatorRegistration statistics_creators = {{
    {"LambSquareOp", "settings"},
    {"ReduceMedianOp", "opid axes:ints keepdims:bool settings"},
    {"SoftmaxOp", "opid axis_>axis:int settings"},
    {"CumSumOp", "opid exclusive_>exclusive:bool reverse_>reverse:bool settings"},
    {"HistogramOp", "opid levels_>levels:reals absoluteOfInput_>absolute_of_input:bool settings"},
    {"TopKOp", "opid k:int axis:int largest:bool sorted:bool settings available_memory_proportion=None:real"},
}};
const FunctionRegistration statistics_functions = {{
    {"ReduceMedian", "median(t, axis:axes>axes=None, keepdims:bool=False) -> median_out, median_indices!",
     R"(The middle element, the lower of two; NaN if there is one. The op has a second output: the int32 index of the
element along the reduced axes, as one.)",
     "middle = ops.median(popxl.constant([4.0, 1.0, 3.0, 2.0]))  # 2"},
    {"TopK",
     "topk(t, k:int, axis:int, largest:bool, sorted:bool, "
     "available_memory_proportion:share=None) -> topk_out_value, topk_out_indices",
     R"(The k largest (or smallest) elements along an axis and their int32 indices; both of t's shape, with k along the
axis. Gradients go to the elements taken.

Args:
    k: at least 1, at most the size of the axis.
    sorted: whether they are in order; else the order is not promised.
    available_memory_proportion: a hint without effect on values.

Raises:
    popart.popart_exception: k is larger than the axis, or below 1.)",
     "values, indices = ops.topk(scores, 5, axis=1, largest=True, sorted=True)"},
    {"LambSquare", "lamb_square(t) -> lamb_square_out",
     "float32 sum of the squares of all elements of a float tensor, of rank 0. No gradient.",
     "norm = ops.sqrt(ops.lamb_square(weight))"},
    {"Softmax", "softmax(t, axis:int) -> softmax_out",
     R"(exp(t) over its sum along all axes from `axis` to the last, taken as one; a negative axis counts from the end.
For the last axis alone that is the usual softmax.)",
     "probabilities = ops.softmax(scores, axis=-1)"},
}};

}  // namespace
}  // namespace ipu::popxl
