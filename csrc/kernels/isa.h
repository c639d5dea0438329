// Which of the compiled variants of our Highway loops kernels prepared from now on use. The level in force
// for the process is tile_gemm/instruction_set.h's; tests go below it to compare bits.
#pragma once

#include "kernels/tile_gemm/instruction_set.h"

// Targets compiled for a file that uses foreach_target.h; defined before Highway's headers see it. SSSE3 and
// SSE4 hosts take the portable code, AVX3_DL hosts the AVX-512 code: fewer builds of each file.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif

namespace ipu::kernels {

using Isa = InstructionSet;

// instruction_set() unless set_active_isa() chose another; Highway's dispatch agrees with it after the call.
Isa active_isa();
// `isa` must not exceed instruction_set(). Not for use while another thread prepares kernels.
void set_active_isa(Isa isa);

}  // namespace ipu::kernels
