// The search for the cheapest split of a product.
#pragma once

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "target/products/product_price.h"

namespace ipu::target {

// Method, in several steps, with partial sums of several tiles.
using ProductKind = std::tuple<ProductMethod, bool, bool>;
ProductKind kind_of(const ProductSplit& split);

class ProductSearch {
 public:
  // Of all kinds, or of all but one; then the plan may not fit.
  ProductSearch(const ProductPrices& prices, std::optional<ProductKind> without);

  ProductPlan run();

 private:
  void find_cuts();
  void find_fields(int64_t kernel_rows);
  void over_channels();
  bool over_fields(int64_t output_blocks);
  void consider(const ProductPlan& plan);

  const ProductPrices& p_;
  std::optional<ProductKind> without_;
  std::vector<FieldCut> cuts_;
  // For the part of the kernel that is looked at: cuts_ that may be the best, and the elements of the operand of each.
  std::vector<FieldCut> fields_;
  std::vector<double> operands_;
  // Of the fields with at most so many parts: the first one, the fewest elements of operand and result.
  struct Fewer {
    size_t first;
    double operand, result;
  };
  std::vector<Fewer> of_parts_;
  ProductSplit split_;
  ProductPlan best_;
  double best_total_ = HUGE_VAL;
  int64_t looked_at_ = 1;
};

}  // namespace ipu::target
