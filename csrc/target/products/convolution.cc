#include "target/products/convolution.h"

#include <fmt/format.h>

#include "support/error.h"
#include "target/products/product_choice.h"

namespace ipu::target {
namespace {

int64_t result_size(int64_t size, int64_t padding, int64_t kernel, int64_t dilation, int64_t stride) {
  const int64_t last = size + padding - (kernel - 1) * dilation - 1;
  return last < 0 || stride < 1 ? 0 : last / stride + 1;
}

ProductShape with_kernel(ProductShape shape, const Convolution& c) {
  shape.kernel_rows = c.kernel_rows;
  shape.kernel_columns = c.kernel_columns;
  shape.dilation_rows = c.dilation_rows;
  shape.dilation_columns = c.dilation_columns;
  return shape;
}

}  // namespace

int64_t Convolution::result_rows() const {
  return result_size(rows, padding_rows, kernel_rows, dilation_rows, stride_rows);
}
int64_t Convolution::result_columns() const {
  return result_size(columns, padding_columns, kernel_columns, dilation_columns, stride_columns);
}

ProductShape forward_shape(const Convolution& c) {
  ProductShape shape =
      with_kernel({c.groups, c.result_rows(), c.inputs, c.outputs, c.batch, c.result_columns()}, c);
  shape.stride_rows = c.stride_rows;
  shape.stride_columns = c.stride_columns;
  return shape;
}

ProductShape data_gradient_shape(const Convolution& c) {
  ProductShape shape = with_kernel({c.groups, c.rows, c.outputs, c.inputs, c.batch, c.columns}, c);
  shape.spread_rows = c.stride_rows;
  shape.spread_columns = c.stride_columns;
  return shape;
}

ProductShape weight_gradient_shape(const Convolution& c, bool is_expanded) {
  const int64_t rows = c.result_rows(), columns = c.result_columns();
  if (is_expanded) {
    ProductShape shape{c.groups, c.inputs * c.kernel_rows * c.kernel_columns, c.batch * rows * columns,
                       c.outputs};
    shape.is_expanded = c.kernel_rows * c.kernel_columns > 1;
    return shape;
  }
  ProductShape shape{c.groups, c.kernel_rows, c.batch, c.outputs, c.inputs, c.kernel_columns};
  shape.kernel_rows = rows;
  shape.kernel_columns = columns;
  shape.stride_rows = c.dilation_rows;
  shape.stride_columns = c.dilation_columns;
  shape.dilation_rows = c.stride_rows;
  shape.dilation_columns = c.stride_columns;
  return shape;
}

ProductShape pass_shape(const Machine& machine, const Convolution& c, ConvolutionPass pass,
                        const ProductOptions& options) {
  if (c.result_rows() < 1 || c.result_columns() < 1)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("a convolution without a result cannot be planned: kernel [{}, {}] on a field [{}, "
                    "{}] padded by [{}, {}]",
                    c.kernel_rows, c.kernel_columns, c.rows, c.columns, c.padding_rows, c.padding_columns));
  if (pass == ConvolutionPass::kForward) return forward_shape(c);
  if (pass == ConvolutionPass::kDataGradient) return data_gradient_shape(c);
  const ProductShape field = weight_gradient_shape(c, false), expanded = weight_gradient_shape(c, true);
  const bool is_cheaper = known_plan(machine, expanded, options).cycles.total() <
                          known_plan(machine, field, options).cycles.total();
  return is_cheaper ? expanded : field;
}

const ProductPlan& convolution_plan(const Machine& machine, const Convolution& c, ConvolutionPass pass,
                                    const ProductOptions& options) {
  return known_plan(machine, pass_shape(machine, c, pass, options), options);
}

}  // namespace ipu::target
