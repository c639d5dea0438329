// Why the planner chose a split.
#pragma once

#include <string>

#include "target/products/convolution.h"

namespace ipu::target {

// The chosen split beside the best one of another kind, and why that one lost.
struct ProductChoice {
  ProductPlan best, second;
  bool second_fits = true;
  size_t lost_in = 0;  // where the second one takes most more: the number of one of its parts
};
ProductChoice choose_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options);

// "groups in 1, rows in 7, inputs in 8, outputs in 26"
std::string describe_split(const ProductSplit& split);

// The shape that a pass of a convolution is planned with: of the gradient of the weights the cheaper one. Errors as
// convolution_plan.
ProductShape pass_shape(const Machine& machine, const Convolution& convolution, ConvolutionPass pass,
                        const ProductOptions& options);

}  // namespace ipu::target
