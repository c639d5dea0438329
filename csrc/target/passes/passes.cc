#include "target/passes/passes.h"

#include <algorithm>

#include "target/products/product_plan.h"

namespace ipu::target {
namespace {

double over_tiles(const Machine& machine, int64_t size) {
  return static_cast<double>(divide_up(size, machine.whole("tiles")));
}

// Vectors of the busiest worker of a tile.
int64_t vectors(const Machine& machine, int64_t elements, int64_t element_bytes) {
  const int64_t lanes = std::max<int64_t>(machine.whole("vector_bytes") / element_bytes, 1);
  return divide_up(divide_up(divide_up(elements, machine.whole("tiles")), machine.whole("workers")), lanes);
}

}  // namespace

double pass_cycles(const Machine& machine, int64_t elements, int64_t element_bytes, double function_cycles,
                   int64_t operands) {
  const double loop = static_cast<double>(vectors(machine, elements, element_bytes)) *
                      (function_cycles + static_cast<double>(operands - 1));
  // A pass follows another one on the same tiles, without an exchange: half a phase.
  return 11 + machine["workers"] * (26 + loop) + machine["phase_cycles"] / 2;
}

double reduce_pass_cycles(const Machine& machine, int64_t elements, int64_t results, int64_t element_bytes) {
  constexpr double kDeepest = 40;  // partial sums of a result that come to a tile
  const double workers = machine["workers"];
  const double local = static_cast<double>(vectors(machine, elements, element_bytes));
  const double depth = std::min(static_cast<double>(elements) / static_cast<double>(results), kDeepest);
  const auto partials = static_cast<int64_t>(static_cast<double>(results) / machine["tiles"] * depth);
  const int64_t loops = divide_up(divide_up(std::max<int64_t>(partials, 1), machine.whole("workers")), 2);
  return 33 + workers * (20 + 2 * local) + 33 + workers * (20 + static_cast<double>(loops)) +
         2 * machine["phase_cycles"];
}

double norm_cycles(const Machine& machine, int64_t elements, int64_t groups, int64_t element_bytes,
                   Direction direction) {
  const double reduce = reduce_pass_cycles(machine, elements, groups, element_bytes);
  const double pass = pass_cycles(machine, elements, element_bytes, 2, 2);
  return direction == Direction::kForward ? 1.5 * reduce + 3 * pass : 3 * reduce + 4 * pass;
}

double softmax_cycles(const Machine& machine, int64_t elements, int64_t rows, int64_t element_bytes,
                      Direction direction) {
  const double reduce = reduce_pass_cycles(machine, elements, rows, element_bytes);
  const double pass = pass_cycles(machine, elements, element_bytes, 1, 2);
  if (direction == Direction::kBackward) return reduce + 3 * pass;
  return 2 * reduce + 2 * pass + pass_cycles(machine, elements, element_bytes, 4, 1);
}

double rearrange_cycles(const Machine& machine, int64_t bytes, int64_t contiguous_bytes) {
  const double share = over_tiles(machine, bytes);
  return share / machine["exchange_bytes_per_cycle"] + machine["phase_cycles"] +
         copy_cycles(share, contiguous_bytes) + 200;
}

double gather_cycles(const Machine& machine, int64_t rows, int64_t row_bytes, int64_t table_bytes,
                     int64_t groups, Direction direction) {
  // Each number is compared with those of the rows of a tile, of its group.
  const double apart = static_cast<double>(std::clamp<int64_t>(groups, 1, machine.whole("tiles")));
  const double tested = std::ceil(static_cast<double>(rows) / apart);
  double search = 8 * tested;
  for (double copies = 2; copies * apart <= machine["tiles"] && copies <= tested; copies *= 2) {
    const double bytes = over_tiles(machine, table_bytes) * copies;
    if (table_bytes == 0 || bytes > ProductOptions{}.memory_proportion * machine["bytes_per_tile"]) break;
    search = std::min(search, 8 * tested / copies + bytes / machine["exchange_bytes_per_cycle"]);
  }
  const double once = 2 * machine["phase_cycles"] + 180 + search + 2 * over_tiles(machine, rows * row_bytes);
  return direction == Direction::kForward ? once : 2 * once;
}

double local_copy_cycles(const Machine& machine, int64_t bytes) {
  return machine["copy_start_cycles"] + static_cast<double>(bytes) / machine["vector_bytes"];
}

double random_cycles(const Machine& machine, int64_t elements) {
  return over_tiles(machine, elements) / machine["random_per_cycle"];
}

}  // namespace ipu::target
