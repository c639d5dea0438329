// How many lanes a kernel has: by its shape alone, so that the cut is the same for every number of workers.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// Lanes for work of so many microseconds on one processor that can be cut into `parts`: at least 5 us each, a
// power of two unless `parts` is less; 1 below 10 us. `most` at most.
int lanes_for_cost(double microseconds, int64_t parts, int most = 16);

// Lanes for `elements` elements of cheap work: at least 4 Ki each up to 16 lanes, 64 Ki each above.
int lanes_for_elements(int64_t elements);

}  // namespace ipu::kernels
