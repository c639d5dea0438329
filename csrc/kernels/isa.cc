// Keeps Highway's process-wide dispatch mask in step with the chosen level.
#include "kernels/isa.h"

#include <fmt/core.h>
#include <hwy/highway.h>

#include <string>

#include "support/error.h"

namespace ipu::kernels {
namespace {

int64_t target_mask([[maybe_unused]] Isa isa) {
#if HWY_ARCH_X86
  if (isa == Isa::kAvx512) return HWY_AVX3;
  if (isa == Isa::kAvx2) return HWY_AVX2;
#endif
  return HWY_STATIC_TARGET;
}

Isa activate(Isa isa) {
  hwy::SetSupportedTargetsForTest(target_mask(isa));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return isa;
}

Isa& active() {
  static Isa isa = activate(instruction_set());
  return isa;
}

}  // namespace

Isa active_isa() { return active(); }

void set_active_isa(Isa isa) {
  IPU_CHECK(isa <= instruction_set(), fmt::format("'{}' is above the level in force", to_string(isa)));
  active() = activate(isa);
}

}  // namespace ipu::kernels
