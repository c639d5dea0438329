// How the library of the machine splits a matrix product over the tiles of an IPU, and what it costs: a search over splits that are
// priced by the published inner loops, the exchange and the reduction of partial sums (docs/device-model.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "target/machine.h"
#include "target/products/inner_loops.h"

namespace ipu::target {

// [groups, rows, inputs] x [groups, inputs, outputs]; the second operand is the weights. The library does not swap the roles
// (docs/rationale/device-model.md).
struct ProductShape {
  int64_t groups = 1, rows = 1, inputs = 1, outputs = 1;
};

struct ProductOptions {
  ProductType type = ProductType::kFp32;
  double memory_proportion = 0.6;  // availableMemoryProportion: of a tile, for temporary bytes
  bool wide_weight_loads = false;  // use128BitConvUnitLoad
  bool exhaustive = false;         // prices every split; the same plan, for tests of the search
};

enum class ProductMethod { kMatrixUnit, kVector };

// In how many parts each dimension is cut; the product of all but `steps` is the number of tiles.
struct ProductSplit {
  ProductMethod method = ProductMethod::kVector;
  int64_t groups = 1, rows = 1, inputs = 1, outputs = 1;
  int64_t steps = 1;          // one after the other, over output channels
  int64_t group_outputs = 1;  // output channels of a block
  int64_t tiles() const { return groups * rows * inputs * outputs; }
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
// The best plan of another kind: with the other method, with or without steps, or with the reduction cut or whole. It may not fit:
// its temporary bytes say so.
ProductPlan second_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                        const ProductPlan& best);
// The same costs for one split.
ProductPlan price_product(const Machine& machine, const ProductShape& shape, const ProductOptions& options,
                          const ProductSplit& split);
// The chosen split, what it costs, and why the second best of another kind lost.
std::string describe_plan(const Machine& machine, const ProductShape& shape, const ProductOptions& options);

}  // namespace ipu::target
