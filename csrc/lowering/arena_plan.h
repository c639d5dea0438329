// Offline placement of buffers in an arena: intervals of life in, byte offsets out. Knows nothing of
// programs.
#pragma once

#include <cstdint>
#include <vector>

namespace ipu::lowering {

struct Interval {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;  // positions in the linear order, inclusive: alive at both
};
struct ArenaPlan {
  std::vector<int64_t> offsets;  // 64-byte aligned, one per interval
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;  // largest sum of bytes alive at one position
  std::vector<int> live_at_peak;
};
// Greedy by size, best fit among free gaps. O(n log n) typically; never worse than the sum of all bytes.
ArenaPlan plan_arena(const std::vector<Interval>& intervals);

}  // namespace ipu::lowering
