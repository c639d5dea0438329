// Random numbers by position: element i of a stream is word i % 4 of Philox4x32-10 with counter (i / 4,
// stream) and the seed as key. Whoever fills a part of a stream gets the same numbers as who fills all of it,
// so they do not depend on lanes, threads or order. The distributions are defined by this code: the reference
// of the random ops calls it too.
#pragma once

#include <cstdint>

#include "support/philox.h"

namespace ipu::kernels {

struct RandomStream {
  PhiloxKey seed;
  int64_t id = 0;
};

// Each fills out[0, count) with the elements from `first` on, which must be a multiple of 4.
struct RandomFill {
  void (*bits)(const RandomStream& stream, int64_t first, int64_t count, uint32_t* out);
  // low + (high - low) * u for u in [0, 1): multiples of 2^-24, or of 2^-11 when `bits` is 11 (for f16).
  void (*uniform)(const RandomStream& stream, int64_t first, int64_t count, float low, float high, int bits,
                  float* out);
  // mean + std * z, z of the standard normal distribution by Box and Muller: elements 2k and 2k + 1 are one
  // pair. |z| is at most 5.77.
  void (*normal)(const RandomStream& stream, int64_t first, int64_t count, float mean, float std, float* out);
  // out = x * (keep_scale(p) where the element is kept, else 0); x may be out. One multiplication, as
  // torch's.
  void (*dropout)(const RandomStream& stream, int64_t first, int64_t count, double p, const float* x,
                  float* out);
};
const RandomFill& random_fill();  // for active_isa(); all levels with fused multiply-add give the same bits

// A dropout with probability `p` keeps the elements whose bits are not above this.
constexpr uint32_t last_kept(double p) {
  const auto kept = static_cast<uint64_t>((1.0 - p) * 0x1p32 + 0.5);  // of 2^32
  return kept == 0 ? 0 : static_cast<uint32_t>(kept - 1);
}
// What the kept ones are multiplied by; p = 1 keeps nothing.
constexpr float keep_scale(double p) { return p >= 1.0 ? 0.0f : static_cast<float>(1.0 / (1.0 - p)); }

// `seed` as it lies in memory, u32[2].
RandomStream random_stream(const void* seed, int64_t id);
// 0, 1, ... last - 1 in a random order: Fisher and Yates, element i drawn with the bits of element i. out[0,
// first) is the order of 0, ... first - 1 already; `first` is a multiple of 4.
void extend_permutation(const RandomStream& stream, int64_t first, int64_t last, int32_t* out);

}  // namespace ipu::kernels
