// Convolutions and their gradients as products.
#pragma once

#include "target/products/product_plan.h"

namespace ipu::target {

struct Convolution {
  int64_t groups = 1, batch = 1;
  int64_t rows = 1, columns = 1;    // of the operand
  int64_t inputs = 1, outputs = 1;  // channels of a group
  int64_t kernel_rows = 1, kernel_columns = 1;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t dilation_rows = 1, dilation_columns = 1;
  int64_t padding_rows = 0, padding_columns = 0;  // on both sides together

  int64_t result_rows() const;
  int64_t result_columns() const;
};

enum class ConvolutionPass { kForward, kDataGradient, kWeightGradient };

ProductShape forward_shape(const Convolution& convolution);
// The gradient of the operand: strides become distances between the elements of the upstream gradient.
ProductShape data_gradient_shape(const Convolution& convolution);
// The gradient of the weights sums over the batch and the result's field: either with the field as the kernel of a convolution over
// the operand, or over an operand that is written out once for each element of the kernel.
ProductShape weight_gradient_shape(const Convolution& convolution, bool is_expanded);

// The plan of a pass, of the gradient of the weights the cheaper one. As known_plan; Error(kTypeMismatch) also if the kernel is
// larger than the padded field.
const ProductPlan& convolution_plan(const Machine& machine, const Convolution& convolution,
                                    ConvolutionPass pass, const ProductOptions& options);

}  // namespace ipu::target
