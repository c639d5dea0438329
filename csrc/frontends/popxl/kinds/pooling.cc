// Pools in one to three dimensions. Attributes: kernelShape, those of the window (sliding_window.h), ceilMode,
// inDilations (zeros between the elements, which count), outPads (zeros around the result); of MaxPool storageOrder.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/parts.h"
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/kinds/sliding_window.h"
#include "frontends/popxl/published.h"
#include "ops/pooling/pool_support.h"

namespace ipu::popxl {
namespace {

using Sizes = std::vector<int64_t>;

struct Pool {
  ir::Value* x;
  ops::Window window;
  Attributes attributes;  // of the IR's pools
};

Pool read_pool(LowerCall& c) {
  const size_t rank = c.shape(0).size();
  if (rank < 3 || rank > 5)
    c.refuse("the input must have one to three spatial dimensions behind the first two");
  Sizes dilations = integers_or_empty(c.attributes(), "inDilations");
  if (!dilations.empty() && dilations.size() != rank - 2)
    c.refuse(fmt::format("inDilations {} must have {} entries", ipu::to_string(dilations), rank - 2));
  ir::Value* x = with_zeros_between(c, c.input(0), dilations);
  Pool pool{x,
            window_of(c, c.attributes().integers("kernelShape"), std::span(x->type().shape).subspan(2),
                      flag(c.attributes(), "ceilMode", false)),
            {}};
  pool.attributes = attributes_of(pool.window);
  pool.attributes.set("kernel", pool.window.kernel);
  return pool;
}

void set_pooled(LowerCall& c, ir::Value* y) {
  const size_t rank = y->type().shape.size() - 2;
  const Sizes pads = entries(c, "outPads", 2 * rank, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  c.set_output(0, padded_or_cut(c, y, Sizes(pads.begin(), middle), Sizes(middle, pads.end())));
}

// How many elements each window sees, as [1, 1, sizes...].
ir::Value* counts_of(LowerCall& c, const ops::Window& window, const Sizes& in) {
  const Sizes out = ops::output_sizes(window, in);
  Shape shape{1, 1};
  shape.insert(shape.end(), out.begin(), out.end());
  std::vector<float> counts(static_cast<size_t>(element_count(shape)), 0.0f);
  ops::for_each_position(out, [&](int64_t position, const std::vector<int64_t>& at) {
    ops::for_each_tap(window, in, at,
                      [&](int64_t, int64_t) { counts[static_cast<size_t>(position)] += 1.0f; });
  });
  if (std::find(counts.begin(), counts.end(), 0.0f) != counts.end())
    c.refuse("a window sees padding alone, and the mean of no elements is none");
  return c.builder().constant(ir::make_constant(DType::kF32, shape, counts.data()));
}

// The IR's pool has no dilations: the sum is a convolution of every channel with ones.
ir::Value* dilated_mean(LowerCall& c, const Pool& pool) {
  const Shape& shape = pool.x->type().shape;
  if (shape.size() == 5) c.refuse("dilation other than 1 is offered for one and two spatial dimensions");
  Shape kernel{shape[1], 1};
  kernel.insert(kernel.end(), pool.window.kernel.begin(), pool.window.kernel.end());
  Attributes attributes = attributes_of(pool.window);
  attributes.set("groups", shape[1]);
  ir::Value* x = c.cast(pool.x, DType::kF32);
  ir::Value* sum = c.build("conv", {x, c.builder().splat({DType::kF32, kernel}, 1.0)}, attributes);
  const Sizes sizes(shape.begin() + 2, shape.end());
  return c.cast(c.build("div", {sum, counts_of(c, pool.window, sizes)}), c.type(0).dtype);
}

void average(LowerCall& c) {
  Pool pool = read_pool(c);
  if (flag(c.attributes(), "countIncludePad", false)) c.refuse("countIncludePad is not offered");
  if (pool.window.dilations != Sizes(pool.window.rank(), 1)) return set_pooled(c, dilated_mean(c, pool));
  pool.attributes.erase("dilations");
  pool.attributes.set("count_include_pad", false);
  PartsCall parts(c);
  set_pooled(c, ops::pooled(parts, "avg_pool", pool.x, pool.attributes));
}

void maximum(LowerCall& c) {
  if (c.attributes().integer("storageOrder", 0) != 0) c.refuse("storage_order=\"column\" is not offered");
  const Pool pool = read_pool(c);
  PartsCall parts(c);
  set_pooled(c, ops::pooled(parts, "max_pool", pool.x, pool.attributes));
}

const KindRegistration average_pool =
    define_kind("AveragePool").id("ai.onnx", 11).gradient({in(0), out(0)}).lower(average);
const KindRegistration max_pool =
    define_kind("MaxPool").id("ai.onnx", 11).gradient({in(0), out(0)}).lower(maximum);

const CreatorRegistration pooling_creators = {{
    {"AveragePoolOp", "opid countIncludePad:int kernelShape:ints attributes>*:window settings"},
    {"MaxPoolOp", "opid kernelShape:ints storageOrder:int attributes>*:window settings"},
}};
const FunctionRegistration pooling_functions = {{
    {"AveragePool",
     "average_pool(t, kernel_size:tuple>kernelShape, stride:window>strides=None, "
     "padding:window>pads=None, out_pads:window>outPads=None, dilation:window>dilations=None, "
     "in_dilations:window>inDilations=None, auto_pad:pad>padType='not_set', "
     "ceil_mode:bool>ceilMode=False) -> averagepool_out",
     R"(Mean of the elements in each window; padding is not counted.

Args:
    t: (N, C, d1, ..., dn), floating, one to three spatial dimensions.
    kernel_size: of the window, one number for each spatial dimension.
    stride, dilation: of the window; None: ones.
    padding: (begin1, ..., beginn, end1, ..., endn); None: zeros.
    out_pads: zeros around the result, in the same form.
    in_dilations: steps between elements of `t`, zeros between; None: ones.
    auto_pad: "not_set", or how to pad instead of by `padding`.
    ceil_mode: a last window may reach over the end, with "not_set".

Returns:
    (N, C, o1, ..., on), in the dtype of `t`.

Raises:
    KeyError: another `auto_pad`.
    popart.popart_exception: shapes do not fit.)",
     "y = ops.average_pool(x, (2, 2), stride=(2, 2))"},
    {"MaxPool",
     "max_pool(t, kernel_size:tuple>kernelShape, stride:window>strides=None, padding:window>pads=None, "
     "out_pads:window>outPads=None, dilation:window>dilations=None, "
     "in_dilations:window>inDilations=None, auto_pad:pad>padType='not_set', "
     "ceil_mode:bool>ceilMode=False, storage_order:order>storageOrder='row') -> maxpool_out",
     R"(Largest element in each window; padding never wins.

Args:
    t, kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode: as of `average_pool`.
    storage_order: "row".

Returns:
    (N, C, o1, ..., on), in the dtype of `t`.

Raises:
    KeyError: another `auto_pad` or `storage_order`.
    popart.popart_exception: shapes do not fit, or the storage order is "column".)",
     "y = ops.max_pool(x, (2, 2), stride=(2, 2))"},
}};

}  // namespace
}  // namespace ipu::popxl
