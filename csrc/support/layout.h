// How the elements of a tensor lie in memory. The shape stays logical in every layout; padding is zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "support/dtype.h"
#include "support/shape.h"

namespace ipu {

enum class Layout : uint8_t {
  kPlain,     // row major
  kPacked64,  // a [K,N] matrix as [ceil(N/w)][K][w] panels, w = 64 (16 when N < 64: [ceil(N/16)][K][16])
  kNhwc,      // [N,C,H,W] or [N,C,W] stored channels last
};

std::string_view to_string(Layout layout);  // "plain", "packed64", "nhwc"
std::optional<Layout> layout_from_string(std::string_view text);
// Bytes a buffer of this layout occupies, padding included.
int64_t stored_bytes(DType dtype, const Shape& shape, Layout layout);

}  // namespace ipu
