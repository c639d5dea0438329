// Host streams that bring the seeds of a run, u32[2] each (support/philox.h): of random ops, and of random rounding unless
// rounding has a seed of its own.
#pragma once

namespace ipu::ir {

inline constexpr const char* kSeedStream = "rng.seed";
inline constexpr const char* kRoundingSeedStream = "rng.rounding";

}  // namespace ipu::ir
