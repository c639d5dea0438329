// Cycles of the loops that run on one tile, as the vendor's library published them (poplibs 7eac0f2, performance estimators). Pure
// functions of sizes.
#pragma once

#include <cstdint>

#include "target/machine.h"

namespace ipu::target {

// Operands and partial sums.
enum class ProductType { kFp16Fp16, kFp16Fp32, kFp32, kFp8 };

// What a tile's core can do with one type, from the machine's numbers.
struct ProductCore {
  ProductType type = ProductType::kFp32;
  int workers = 0;
  int64_t units = 0;       // output channels of a block
  int64_t inputs = 0;      // input channels of a block
  int64_t row_cycles = 0;  // of a worker for one row of a block
  int64_t operand_bytes = 0, partial_bytes = 0;
  int64_t weight_load_bytes = 0;                 // per cycle
  int64_t operand_lanes = 0, partial_lanes = 0;  // elements of a vector
  int64_t vector_bytes = 0;
};
// Without units: the machine does not know the type.
ProductCore product_core(const Machine& machine, ProductType type, bool wide_weight_loads);

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The 1x1 kernel of the matrix unit: `rows` rows of `input_blocks` x `output_blocks` blocks, `groups` times; a block has
// `group_outputs` output channels.
int64_t matrix_unit_cycles(const ProductCore& core, int64_t groups, int64_t input_blocks,
                           int64_t output_blocks, int64_t group_outputs, int64_t rows);
// Sum of `depth` partial results of `elements` elements each.
int64_t reduction_cycles(const ProductCore& core, int64_t elements, int64_t depth);
int64_t cast_cycles(const ProductCore& core, int64_t elements);
// A copy on the tile that changes the order of elements; `atom` bytes lie together before and after.
double copy_cycles(double bytes, int64_t atom);
// Products without the matrix unit, one output at a time.
int64_t vector_product_cycles(const ProductCore& core, int64_t rows, int64_t inputs, int64_t outputs);

}  // namespace ipu::target
