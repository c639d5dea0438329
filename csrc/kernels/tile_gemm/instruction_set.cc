// Applies POPTORCH_ISA to the two providers of vector code: libxsmm (generated tiles) and Highway (our own
// loops).
#include "kernels/tile_gemm/instruction_set.h"

#include <fmt/core.h>
#include <hwy/targets.h>
#include <libxsmm.h>

#include <cstdlib>
#include <string>

#include "support/error.h"

namespace ipu::kernels {
namespace {

// The best that the machine runs and this build holds (one for ThreadSanitizer has no AVX-512).
InstructionSet best_available() {
#if HWY_ARCH_X86_64
  const int level = libxsmm_get_target_archid();
  if (level >= LIBXSMM_X86_AVX512_CORE && (HWY_TARGETS & HWY_AVX3) != 0) return InstructionSet::kAvx512;
  if (level >= LIBXSMM_X86_AVX2 && (HWY_TARGETS & HWY_AVX2) != 0) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

void pin_highway([[maybe_unused]] InstructionSet level) {
#if HWY_ARCH_X86_64
  if (level == InstructionSet::kAvx2) hwy::DisableTargets(HWY_AVX2 - 1);  // all better than AVX2
  hwy::GetChosenTarget().DeInit();                                        // choose again under the new mask
#endif
}

InstructionSet choose() {
  libxsmm_init();
  const char* text = std::getenv("POPTORCH_ISA");
  const InstructionSet best = best_available();
  const InstructionSet level = instruction_set_from(text == nullptr ? "" : text, best);
#if HWY_ARCH_X86_64
  if (level == InstructionSet::kAvx2 && level != best) libxsmm_set_target_archid(LIBXSMM_X86_AVX2);
#endif
  pin_highway(level);
  return level;
}

}  // namespace

InstructionSet instruction_set_from(std::string_view text, InstructionSet best) {
  if (text.empty() || text == "native") return best;
  for (InstructionSet level : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (text != to_string(level)) continue;
    if (level <= best) return level;
    throw Error(ErrorCode::kEnvironment,
                fmt::format("POPTORCH_ISA={} is not available: this machine offers up to {}. "
                            "Unset it, or use \"native\".",
                            text, to_string(best)));
  }
  throw Error(ErrorCode::kEnvironment, fmt::format("POPTORCH_ISA has the unknown value \"{}\". "
                                                   "Use \"native\", \"portable\", \"avx2\" or \"avx512\".",
                                                   text));
}

InstructionSet instruction_set() {
  static const InstructionSet level = choose();
  return level;
}

std::string_view to_string(InstructionSet level) {
  switch (level) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "portable";
}

}  // namespace ipu::kernels
