// The attribute `reduction` of losses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ipu::kernels {

enum class LossReduction : uint8_t { kMean, kSum, kNone };

inline std::optional<LossReduction> loss_reduction(std::string_view text) {
  if (text == "mean") return LossReduction::kMean;
  if (text == "sum") return LossReduction::kSum;
  if (text == "none") return LossReduction::kNone;
  return std::nullopt;
}

}  // namespace ipu::kernels
