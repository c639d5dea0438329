// The host stream that brings the seed of a run, u32[2] (support/philox.h), for random ops and random rounding.
#pragma once

namespace ipu::ir {

inline constexpr const char* kSeedStream = "rng.seed";

}  // namespace ipu::ir
