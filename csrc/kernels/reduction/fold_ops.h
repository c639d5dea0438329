// Inner loops of reductions on 32-bit registers, compiled per instruction set. The order of every fold
// depends on the count alone, never on the vector width, so AVX2 and AVX-512 give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipu::kernels {

enum class FoldKind : uint8_t { kSumF, kProdF, kMaxF, kMinF, kSumI, kProdI, kMaxI, kMinI, kMaxU, kMinU };
inline constexpr size_t kFoldKinds = 10;

struct FoldOps {
  // One register from `count` > 0 contiguous ones. Sums: 64 (16 for short rows) interleaved chains, added as
  // a tree.
  uint32_t (*row)(const uint32_t* from, size_t count) = nullptr;
  // out[c] = rows[0][c] op rows[1][c] op ... in order; `rows` > 0.
  void (*columns)(const uint32_t* const* from, size_t rows, size_t columns, uint32_t* out) = nullptr;
  uint32_t (*two)(uint32_t a, uint32_t b) = nullptr;
};
inline constexpr size_t kFoldBlock =
    1024;  // longest row a caller should pass: bounds the rounding error of sums
inline constexpr size_t kFoldRows = 16;  // most rows of `columns`, for the same reason

uint32_t fold_identity(FoldKind kind);
const FoldOps& fold_ops(FoldKind kind);  // for active_isa()

}  // namespace ipu::kernels
