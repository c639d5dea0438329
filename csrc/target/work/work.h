// What an op does on the tiles of an IPU, as phases of forms that the device model has prices for. Definitions of ops state their work;
// they never speak of cycles.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "target/products/convolution.h"
#include "target/products/product_plan.h"
#include "target/work/function_cycles.h"

namespace ipu::target {

// A matrix product. The operand that stays (the weights) is the second one of the shape.
struct ProductWork {
  ProductShape shape = {};
  ProductOptions options = {};
};

struct ConvolutionWork {
  Convolution convolution = {};
  ConvolutionPass pass = ConvolutionPass::kForward;
  ProductOptions options = {};
  std::vector<ConvolutionWork> beside = {};  // that run at the same time on other tiles
};

// A pass over all elements of a result. `functions` are applied to each, by the names of function_cycles.h: those of
// kernels/pointwise/scalar_functions.h and some that the library has whole; "" is a copy. Operands of fewer elements (broadcast ones)
// count as one.
struct PassWork {
  int64_t elements = 0;
  int64_t element_bytes = 4;
  int64_t operands = 1;
  std::vector<std::string_view> functions = {};
  ElementType type = ElementType::kReal;
};

// `elements` elements to `results` ones. Sums taken in the same pass (of a value and of its square) are `sums`.
struct ReductionWork {
  int64_t elements = 0, results = 1;
  int64_t element_bytes = 4;
  int64_t sums = 1;
};

// The same elements in another order or on other tiles; so many bytes lie together before and after.
struct RearrangementWork {
  int64_t bytes = 0;
  int64_t contiguous_bytes = 8;
};

// Rows of a table by their numbers, or additions to them.
struct GatherWork {
  int64_t rows = 0, row_bytes = 0;
  int64_t table_bytes = 0;
  int64_t groups = 1;  // parts of the table, of which each row is in a known one
  bool is_update = false;
  int64_t blocks =
      1;  // of an update: blocks of the table that each take a slice at the same place; a block lies on few tiles
};

// The `kept` largest of each of `rows` rows of `columns` elements, in order; all of them: a sort.
struct SortWork {
  int64_t rows = 1, columns = 1, kept = 1;
  bool has_values = false;  // that follow the keys
};

enum class Distribution : uint8_t { kUniform, kNormal, kTruncatedNormal, kBernoulli, kDropout };
struct RandomWork {
  int64_t elements = 0;
  int64_t element_bytes = 4;
  Distribution distribution = Distribution::kUniform;
};

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast };
// Of replicas: `bytes` are those of the whole value on each of them.
struct CollectiveWork {
  Collective collective = Collective::kAllReduce;
  double bytes = 0;
  int64_t group = 0;        // replicas of a group; 0: all
  bool is_of_ipus = false;  // of one replica, in place of replicas
};

using WorkForm = std::variant<ProductWork, ConvolutionWork, PassWork, ReductionWork, RearrangementWork,
                              GatherWork, SortWork, RandomWork, CollectiveWork>;

// One after the other, `times` times (the steps of a recurrent layer).
struct Work {
  WorkForm form;
  int64_t times = 1;
};

// "product", "convolution", "pass", "reduction", "rearrangement", "gather", "sort", "random", "collective".
std::string_view word(const WorkForm& form);

// The replicas that a program runs as.
struct Replication {
  int64_t replicas = 1, ipus_of_a_replica = 1;
};

// Multiplications, each with an addition, of a product or a convolution; 0 of other forms.
double macs(const WorkForm& form);

// What work takes on one IPU.
struct WorkPrice {
  double compute = 0;          // cycles of tiles that compute
  double exchange = 0;         // cycles of bytes on their way between tiles
  double overhead = 0;         // cycles of syncs, starts of phases, control
  double seconds = 0;          // of links, host and streaming memory, whose clocks are not that of the tiles
  double temporary_bytes = 0;  // of the fullest tile, while it runs

  double cycles() const { return compute + exchange + overhead; }
  WorkPrice& operator+=(const WorkPrice& next);  // one after the other
  WorkPrice operator*(double times) const;
};
WorkPrice price(const Machine& machine, const Work& work, const Replication& replication);

}  // namespace ipu::target
