// Which instruction set our kernels use: the machine's best, or the level POPTORCH_ISA pins.
// Not here: the kernels. Read once per process, before the first kernel is prepared.
#pragma once

#include <cstdint>
#include <string_view>

namespace ipu::kernels {

enum class InstructionSet : uint8_t {
  kPortable,  // no generated code: every tile comes from vector_tiles.cc (what machines other than x86-64
              // use)
  kAvx2,
  kAvx512,
};

// The level in force. POPTORCH_ISA is "native" (default), "portable", "avx2" or "avx512"; any other text, or
// a level the machine lacks, raises Error(kEnvironment). The first call applies the level to libxsmm and
// Highway.
InstructionSet instruction_set();

// What POPTORCH_ISA=`text` means on a machine that offers up to `best`; raises Error(kEnvironment) as above.
InstructionSet instruction_set_from(std::string_view text, InstructionSet best);

std::string_view to_string(InstructionSet level);

}  // namespace ipu::kernels
