#include "target/transfers/collectives.h"

#include <algorithm>
#include <cmath>

#include "target/transfers/links.h"

namespace ipu::target {

double reduce_cycles(const Machine& machine, int64_t operands, int64_t tiles) {
  // The start grows with the stages of the tree over the tiles.
  const bool is_few = operands < machine.whole("workers");
  const double one = machine[is_few ? "reduce_few_cycles" : "reduce_cycles"];
  const double all = machine[is_few ? "reduce_few_all_tiles_cycles" : "reduce_all_tiles_cycles"];
  const double share = std::log2(static_cast<double>(tiles)) / std::max(std::log2(machine["tiles"]), 1.0);
  return one + (all - one) * std::min(share, 1.0) + static_cast<double>(is_few ? 0 : operands);
}

double reduce_seconds(const Machine& machine, int64_t operands, int64_t tiles, int64_t ipus) {
  const double clock = machine["clock_hz"];
  const double inside = reduce_cycles(machine, operands, tiles) / clock;
  const double stages = std::log2(static_cast<double>(ipus));
  // A partial sum from each tile crosses a board, and then they come together on the tiles as those of a few operands.
  const double again = tiles > 1 ? reduce_cycles(machine, 1, tiles) / clock : 0;
  return inside + stages * (hop_seconds(machine, hops_between(0, 1)) + again);
}

double ring_seconds(const Machine& machine, double bytes, int64_t replicas) {
  if (replicas < 2) return 0;
  const double count = static_cast<double>(replicas);
  // The library sends small messages to neighbours without starting the ring of large ones.
  const double step = machine["link_rung_seconds"] +
                      std::min(machine["ring_step_seconds"], machine["small_step_ipu_seconds"] * count);
  return 2 * (count - 1) / count * bytes / machine["link_bytes_per_second"] + 2 * (count - 1) * step;
}

double rack_seconds(const Machine& machine, double bytes, int64_t replicas, int64_t racks) {
  if (racks < 2) return 0;
  const double count = static_cast<double>(racks);
  return 2 * (count - 1) / count * bytes / static_cast<double>(replicas) /
             machine["gateway_bytes_per_second"] +
         2 * (count - 1) * machine["gateway_seconds"];
}

double all_reduce_seconds(const Machine& machine, double bytes, int64_t replicas, int64_t ipus_of_a_replica) {
  const int64_t of_a_rack = std::clamp<int64_t>(machine.whole("rack_ipus") / ipus_of_a_replica, 1, replicas);
  const int64_t racks = (replicas + of_a_rack - 1) / of_a_rack;
  return ring_seconds(machine, bytes, of_a_rack) + rack_seconds(machine, bytes, of_a_rack, racks);
}

}  // namespace ipu::target
