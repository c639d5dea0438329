// What a split of a product costs.
#pragma once

#include <vector>

#include "target/products/product_plan.h"

namespace ipu::target {

// A cut of the fields of the result, and what a tile has of it.
struct FieldCut {
  int64_t batch_parts = 1, row_parts = 1, column_parts = 1;
  int64_t batch = 1, rows = 1, columns = 1;
  BlockWork work;  // for one block of weights

  int64_t parts() const { return batch_parts * row_parts * column_parts; }
  int64_t elements() const { return batch * rows * columns; }
};

// What lies on the fullest tile in one step.
struct TilePart {
  Blocks blocks;
  int64_t kernel_rows = 1;
  double operand_bytes = 0, weight_bytes = 0, result_elements = 0;
  double sum_bytes = 0;  // of the results that steps over the input channels add to
};

// Of a split with its steps: cycles are sums of what the field does not change and of multiples of what it has.
struct StepCosts {
  double fixed = 0, by_first = 0, by_later = 0;              // inner loops
  double by_operand = 0, of_all_weights = 0, by_result = 0;  // exchange

  double inner_loops(const FieldCut& field) const {
    return fixed + by_first * static_cast<double>(field.work.first) +
           by_later * static_cast<double>(field.work.later);
  }
};

// The numbers of a machine that prices need, looked up once. Sizes of the shape are those of a plain product where it is one.
class ProductPrices {
 public:
  ProductPrices(const Machine& machine, const ProductShape& product, const ProductOptions& options);

  const ProductOptions& options;
  ProductShape shape;
  ProductCore core;
  int64_t tiles, tiles_per_bus;
  double memory;  // temporary bytes that a plan may have

  FieldCut field(int64_t batch_parts, int64_t row_parts, int64_t column_parts) const;
  // Of the operand, for one input channel.
  double operand_elements(const FieldCut& field, int64_t kernel_rows) const;
  TilePart part(const ProductSplit& split, const FieldCut& field) const;
  double temporary_bytes(const TilePart& part) const;
  // What one element of the operand and one of the result take without steps over the input channels.
  TilePart unit_part(const ProductSplit& split) const;
  double temporary_bytes(const TilePart& unit, double operands, double elements) const;
  // What one of the split's steps over the input channels has of a part that is whole.
  TilePart of_input_step(TilePart whole, const ProductSplit& split) const;
  StepCosts step_costs(const ProductSplit& split, const TilePart& whole) const;
  // Cycles of exchange, without weights.
  double least_exchange(const ProductSplit& split, const TilePart& whole, double operands,
                        double elements) const;
  // Cycles that a split takes at the least: inner loops and exchange.
  double least_cycles(const StepCosts& costs, double operands, const FieldCut& field) const;
  double inner_loops(const ProductSplit& split, const TilePart& part, const FieldCut& field) const;
  ProductPlan matrix_unit(const ProductSplit& split, const TilePart& part, const FieldCut& field) const;

  // Input channels of a block of the matrix unit.
  int64_t group_inputs(const ProductSplit& split) const { return core.inputs / split.filter_rows; }
  // Of those, what the tile with most of them has.
  int64_t input_blocks(const ProductSplit& split) const {
    return divide_up(divide_up(shape.inputs, group_inputs(split)), split.inputs);
  }
  // Rows of the kernel at once: 1, and where the channels allow it 2 and 4.
  std::vector<int64_t> filter_rows() const;
  std::vector<int64_t> group_outputs() const;

  // Plans of the vector unit. Those of a method that the machine or the shape does not have: is_narrow(), is_depthwise() say so.
  ProductPlan vector_plan() const;
  ProductPlan narrow_plan() const;
  ProductPlan depthwise_plan() const;
  bool is_narrow() const;
  bool is_depthwise() const;

 private:
  double operand_share(const ProductSplit& split) const;
  void add_reduction(int64_t depth, double elements, double steps, ProductCycles* cycles) const;
  // Groups and elements of the field over the tiles, each tile with `cycles` for one element of the field and `whole` groups.
  ProductPlan spread_plan(ProductMethod method, int64_t groups, double element_cycles) const;

  double spread_bytes(const ProductSplit& split, int64_t groups, int64_t channels) const;

  double exchange_bytes_, phase_, call_, temporary_, library_, vector_, grouped_, sparse_, dynamic_sparse_;
  int64_t narrow_channels_, depthwise_channels_;
};

}  // namespace ipu::target
