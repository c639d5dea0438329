#include "target/transfers/links.h"

#include <algorithm>
#include <cstdlib>

namespace ipu::target {

Hops hops_between(int64_t from, int64_t to) { return {std::abs(from / 2 - to / 2), from % 2 != to % 2}; }

Hops longest_hops(int64_t ipus) {
  Hops hops = hops_between(0, ipus - 1);
  hops.crosses = ipus > 1;
  hops.is_one_other = false;
  return hops;
}

double hop_seconds(const Machine& machine, const Hops& hops) {
  return machine["link_seconds"] + static_cast<double>(hops.rungs) * machine["link_rung_seconds"] +
         (hops.crosses ? machine["link_cross_seconds"] : 0);
}

double hop_bytes_per_second(const Machine& machine, const Hops& hops) {
  const bool is_board = hops.rungs == 0;
  return machine["link_bytes_per_second"] * (is_board ? machine["board_links"] : 1);
}

double random_bytes_per_second(const Machine& machine, int64_t ipus) {
  if (ipus == 2) return 2 * hop_bytes_per_second(machine, hops_between(0, 1));  // each sends to the other one
  return machine["link_bytes_per_second"] * machine["random_links"];
}

double host_bytes_per_second(const Machine& machine, int64_t tiles, int64_t lanes) {
  const double rate = machine["host_bytes_per_second"];
  if (lanes > 0) return rate * static_cast<double>(lanes) / machine["host_lanes"];
  return std::min(rate, static_cast<double>(tiles) * machine["host_tile_bytes_per_second"]);
}

double host_seconds(const Machine& machine, int64_t tiles_of_an_ipu) {
  return machine["host_seconds"] +
         (tiles_of_an_ipu > machine.whole("host_many_tiles") ? machine["host_many_tiles_seconds"] : 0);
}

}  // namespace ipu::target
