#include "ops/convolution/convolution_work.h"

#include "ops/convolution/window.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

// A field of one dimension is one row.
target::Convolution convolution_of(const ir::Op& op, const Shape& x, const Shape& weight) {
  const Window window = read_window(op.attributes, {weight.begin() + 2, weight.end()});
  const int64_t groups = op.attributes.integer("groups", 1);
  target::Convolution c{.groups = groups, .batch = x[0], .inputs = weight[1], .outputs = weight[0] / groups};
  const size_t columns = window.rank() - 1;
  c.columns = x.back();
  c.kernel_columns = window.kernel[columns];
  c.stride_columns = window.strides[columns];
  c.dilation_columns = window.dilations[columns];
  c.padding_columns = window.padding_low[columns] + window.padding_high[columns];
  if (columns == 0) return c;
  c.rows = x[2];
  c.kernel_rows = window.kernel[0];
  c.stride_rows = window.strides[0];
  c.dilation_rows = window.dilations[0];
  c.padding_rows = window.padding_low[0] + window.padding_high[0];
  return c;
}

}  // namespace

std::vector<target::Work> convolution_work(const ir::Op& op, target::ConvolutionPass pass, const Shape& x,
                                           const Shape& weight) {
  const target::ConvolutionWork work{convolution_of(op, x, weight), pass, product_options(op)};
  if (target::macs(work) == 0) return {pass_over(op.result()->type(), {""})};
  return {{work}};
}

std::vector<target::Work> forward_convolution_work(const ir::Op& op) {
  return convolution_work(op, target::ConvolutionPass::kForward, op.operand(0)->type().shape,
                          op.operand(1)->type().shape);
}

}  // namespace ipu::ops
