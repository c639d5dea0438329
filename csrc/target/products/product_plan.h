// How the library of the machine splits a matrix product or a convolution over the tiles of an IPU, and what it costs: a search over
// splits that are priced by the published inner loops, the exchange and the reduction of partial sums (docs/device-model.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "target/machine.h"
#include "target/products/inner_loops.h"

namespace ipu::target {

// [groups, rows, inputs] x [groups, inputs, outputs]; the second operand is the weights. The library does not swap the roles
// (docs/rationale/device-model.md). With the other sizes a convolution, whose result has `batch` fields of rows x columns and
// whose channels are those of a group; a product is one with a kernel of one element.
struct ProductShape {
  int64_t groups = 1, rows = 1, inputs = 1, outputs = 1;
  int64_t batch = 1, columns = 1;
  int64_t kernel_rows = 1, kernel_columns = 1;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t dilation_rows = 1, dilation_columns = 1;  // of the kernel
  int64_t spread_rows = 1, spread_columns = 1;      // of the operand: elements of it lie that far apart
  bool is_expanded = false;  // the operand was written out once for each element of the kernel

  int64_t elements() const { return batch * rows * columns; }
  int64_t kernel_elements() const { return kernel_rows * kernel_columns; }
  // Every element of the operand meets every weight of its group: rows of a plain product.
  bool is_plain() const {
    return kernel_elements() == 1 && stride_rows == 1 && stride_columns == 1 && spread_rows == 1 &&
           spread_columns == 1;
  }
  double macs() const;
  bool operator==(const ProductShape&) const = default;
};

struct ProductOptions {
  ProductType type = ProductType::kFp32;  // with the type of partial sums, partialsType
  double memory_proportion = 0.6;         // availableMemoryProportion: of a tile, for temporary bytes
  bool wide_weight_loads = false;         // use128BitConvUnitLoad
  bool fast_reduce = false;               // enableFastReduce
  double density = 1;                     // of weights of which only some blocks are not zero
  int64_t sparse_block = 0;               // rows and columns of such a block; 0: dense
  bool is_dynamic = false;                // which blocks there are is known at run time only
  double tile_share = 1;                  // of the tiles of an IPU that it may use
  bool exhaustive = false;                // prices every split; the same plan, for tests of the search
  bool operator==(const ProductOptions&) const = default;
};

// Narrow groups and depthwise products run on the vector unit; kVector does so too, one output at a time, for what has no other plan.
enum class ProductMethod { kMatrixUnit, kVector, kNarrow, kDepthwise };
const char* word(ProductMethod method);

// The same on a machine: products of 8-bit floats are those of halves where its matrix unit has no such type.
ProductOptions on_machine(const Machine& machine, ProductOptions options);

// In how many parts each dimension is cut; the product of all but the steps is the number of tiles.
struct ProductSplit {
  ProductMethod method = ProductMethod::kVector;
  int64_t groups = 1, rows = 1, inputs = 1, outputs = 1;
  int64_t batch = 1, columns = 1, kernel_rows = 1;
  int64_t steps = 1;          // one after the other, over output channels
  int64_t input_steps = 1;    // of each of those, over input channels: their sums are added up
  int64_t group_outputs = 1;  // output channels of a block
  int64_t filter_rows = 1;    // rows of the kernel that a block holds; they share its input channels
  int64_t fields() const { return batch * rows * columns; }
  int64_t all_steps() const { return steps * input_steps; }
  int64_t tiles() const { return groups * inputs * outputs * kernel_rows * fields(); }
  bool operator==(const ProductSplit&) const = default;
};

// Cycles by cause; of all steps together.
struct ProductCycles {
  double inner_loops = 0, exchange_operands = 0, exchange_partials = 0, reduction = 0, cast = 0, slices = 0;
  double phases = 0, call = 0;
  // Each with its name.
  std::array<std::pair<const char*, double>, 8> parts() const {
    return {{{"inner loops", inner_loops},
             {"exchange of operands", exchange_operands},
             {"exchange of partials", exchange_partials},
             {"reduction", reduction},
             {"cast", cast},
             {"slices and copies", slices},
             {"phases", phases},
             {"call", call}}};
  }
  double total() const {
    return inner_loops + exchange_operands + exchange_partials + reduction + cast + slices + phases + call;
  }
};

struct ProductPlan {
  ProductSplit split;
  ProductCycles cycles;
  double temporary_bytes = 0;  // of the fullest tile
  int64_t looked_at = 0;       // splits that the search looked at
};

// The cheapest plan whose temporary bytes fit; of equals the one with fewer tiles, then with fewer bytes. Vector products fit
// always. Error(kTypeMismatch) if a size is not positive or the machine has no such type.
ProductPlan plan_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options);
// The same of a machine that lives as long as the process; equal shapes are planned once.
const ProductPlan& known_plan(const Machine& machine, const ProductShape& shape,
                              const ProductOptions& options);
// The best plan of another kind: with another method, with or without steps, or with the reduction cut or whole. It may not fit:
// its temporary bytes say so.
ProductPlan second_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                        const ProductPlan& best);
// The same costs for one split.
ProductPlan price_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                          const ProductSplit& split);
// The chosen split, what it costs, and why the second best of another kind lost.
std::string describe_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options);

}  // namespace ipu::target
