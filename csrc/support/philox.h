// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a keyed bijection of
// a 128-bit counter. Random ops use the element as counter, so results do not depend on threads or on order.
#pragma once

#include <array>
#include <cstdint>

namespace ipu {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// How seeds follow from each other: the seed of a run from that of the program, of a replica from that of the
// run, and so on down to one micro-batch. The fourth words are such that no random op counts there.
constexpr PhiloxKey seed_of_run(uint64_t seed, uint64_t run) {
  const PhiloxCounter word =
      philox4x32({static_cast<uint32_t>(run), static_cast<uint32_t>(run >> 32), 0, 0xfffffffeu},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {word[0], word[1]};
}
constexpr PhiloxKey derive_seed(PhiloxKey seed, int32_t counter) {
  const PhiloxCounter word = philox4x32({static_cast<uint32_t>(counter), 0, 0, 0xffffffffu}, seed);
  return {word[0], word[1]};
}

// A float in [0, 1) from the upper 24 bits: every value is a multiple of 2^-24.
constexpr float uniform_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace ipu
