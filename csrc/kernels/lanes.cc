#include "kernels/lanes.h"

#include <algorithm>
#include <bit>

namespace ipu::kernels {

int lanes_for_cost(double microseconds, int64_t parts, int most) {
  const double wanted = std::clamp(microseconds / 5, 1.0, static_cast<double>(std::max(most, 1)));
  return static_cast<int>(
      std::clamp<int64_t>(std::bit_floor(static_cast<uint64_t>(wanted)), 1, std::max<int64_t>(parts, 1)));
}

int lanes_for_elements(int64_t elements) {
  const int64_t wanted =
      std::max(std::clamp<int64_t>(elements / 4096, 1, 16), std::clamp<int64_t>(elements / 65536, 1, 64));
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(wanted)));
}

}  // namespace ipu::kernels
