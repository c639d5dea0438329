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
  int64_t macs = 0;        // per cycle
  int64_t operand_bytes = 0, partial_bytes = 0;
  int64_t weight_load_bytes = 0;                 // per cycle
  int64_t operand_lanes = 0, partial_lanes = 0;  // elements of a vector
  int64_t vector_bytes = 0;
};
// Without units: the machine does not know the type.
ProductCore product_core(const Machine& machine, ProductType type, bool wide_weight_loads);

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What a tile has of a product: blocks of weights, of `group_outputs` output channels each.
struct Blocks {
  int64_t groups = 1, inputs = 1, outputs = 1, group_outputs = 1;
};
// Cycles of all workers of a tile for one block of weights; the first block of the input channels also clears the partial sums.
struct BlockWork {
  int64_t first = 0, later = 0;
};

// The 1x1 kernel of the matrix unit over `rows` rows.
BlockWork plain_work(const ProductCore& core, int64_t rows);
int64_t plain_cycles(const ProductCore& core, const Blocks& blocks, const BlockWork& work);

// Kernels of several elements, and strides: `rows` rows of `width` elements for one element of the kernel, or for `filter_rows` (1, 2
// or 4) rows of it at once, which share the input channels of a block. The tile has `kernel_rows` x `kernel_columns` of the
// kernel and clears `elements` partial sums of an output channel.
BlockWork field_work(const ProductCore& core, int64_t rows, int64_t width);
int64_t field_cycles(const ProductCore& core, const Blocks& blocks, const BlockWork& work,
                     int64_t kernel_rows, int64_t kernel_columns, int64_t filter_rows, int64_t elements);

// Sum of `depth` partial results of `elements` elements each; with `fast` the partial results lie in interleaved memory.
int64_t reduction_cycles(const ProductCore& core, int64_t elements, int64_t depth, bool fast);
// Of `elements` partial sums to as many others.
int64_t add_in_place_cycles(const ProductCore& core, int64_t elements);
int64_t cast_cycles(const ProductCore& core, int64_t elements);
// A copy on the tile that changes the order of elements; `atom` bytes lie together before and after.
double copy_cycles(double bytes, int64_t atom);

// Without the matrix unit: a worker's cycles for one element of the field and one of the kernel.
// One output at a time, for whatever has no other plan.
int64_t vector_position_cycles(const ProductCore& core, int64_t inputs, int64_t outputs);
// Groups of few channels.
int64_t narrow_position_cycles(const ProductCore& core, int64_t inputs, int64_t outputs);
// One channel a group, several of them side by side, for the whole kernel.
int64_t depthwise_element_cycles(int64_t kernel_rows, int64_t kernel_columns);

}  // namespace ipu::target
