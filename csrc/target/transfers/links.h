// Links between IPUs and to the host. IPUs stand on a ladder: two of a board on each rung.
#pragma once

#include <cstdint>

#include "target/machine.h"

namespace ipu::target {

// The way from one IPU to another: up or down the rails, and across a rung or not.
struct Hops {
  int64_t rungs = 0;
  bool crosses = false;
  bool is_one_other = true;  // messages go to the one IPU only
};
Hops hops_between(int64_t from, int64_t to);
// The longest way between two of the first `ipus`.
Hops longest_hops(int64_t ipus);

// A word over the links.
double hop_seconds(const Machine& machine, const Hops& hops);
// One IPU to another one, in one direction; or all of them to tiles anywhere.
double hop_bytes_per_second(const Machine& machine, const Hops& hops);
double random_bytes_per_second(const Machine& machine, int64_t ipus);

// The host's data into `tiles` tiles of an IPU, over `lanes` lanes of PCIe in all; 0 lanes: those of one IPU.
double host_bytes_per_second(const Machine& machine, int64_t tiles, int64_t lanes);
double host_seconds(const Machine& machine, int64_t tiles_of_an_ipu);

}  // namespace ipu::target
