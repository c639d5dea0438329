// Chooses the provider of a tile and calls it. libxsmm is column-major: our row-major product is its product
// with A and B exchanged, so its "n" is our rows and TRANS_B is our transposed A.
#include "kernels/tile_gemm/tile_gemm.h"

#include <libxsmm.h>

#include "kernels/tile_gemm/instruction_set.h"
#include "kernels/tile_gemm/vector_tiles.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

// Where libxsmm 1.17 keeps the one-chain promise and is the faster of the two.
// On AVX-512 it splits the chain into several accumulators for tiles of one vector and at most 11 rows; on
// AVX2 it falls to scalar code for columns that are not whole vectors.
bool suits_libxsmm(const TileShape& s) {
  InstructionSet level = instruction_set();
  if (level == InstructionSet::kPortable || s.rows < 1 || s.columns < 1 || s.depth < 1) return false;
  if (s.columns <= 16 && s.rows <= 11) return false;
  if (level == InstructionSet::kAvx2 && s.columns % 8 != 0) return false;
  // It takes no overlapping rows (the portable tile does).
  if (s.lda < (s.transposed_a ? s.rows : s.depth) || s.ldb < s.columns || s.ldc < s.columns) return false;
  // Its sizes are 32-bit, and so are the displacements in bytes by which its code reaches some 64 rows.
  constexpr int64_t kMostDepth = int64_t{1} << 30, kLongestRow = int64_t{1} << 22;
  return s.depth < kMostDepth && s.rows <= 128 && s.columns <= 128 && s.lda < kLongestRow &&
         s.ldb < kLongestRow && s.ldc < kLongestRow;
}

// With AVX2 a tile has 16 columns in registers, so it reads each row of B in several strips, and a B of more than this
// depth comes from the second cache again for every few rows of A.
constexpr int64_t kPartDepth = 64;
constexpr int64_t kShortDepth =
    32;  // of pairs: from here on reading and writing C between pairs is the cheaper

struct DispatchArguments {
  libxsmm_blasint m, n, k, lda, ldb, ldc;
  float alpha = 1.0f, beta;
  int flags, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;

  explicit DispatchArguments(const TileShape& s)
      : m(static_cast<libxsmm_blasint>(s.columns)),
        n(static_cast<libxsmm_blasint>(s.rows)),
        k(static_cast<libxsmm_blasint>(s.depth)),
        lda(static_cast<libxsmm_blasint>(s.ldb)),
        ldb(static_cast<libxsmm_blasint>(s.lda)),
        ldc(static_cast<libxsmm_blasint>(s.ldc)),
        beta(s.accumulate ? 1.0f : 0.0f),
        flags(s.transposed_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE) {}
};

libxsmm_smmfunction generate(TileShape shape, int64_t depth, bool accumulate) {
  shape.depth = depth;
  shape.accumulate = accumulate;
  DispatchArguments d(shape);
  return libxsmm_smmdispatch(d.m, d.n, d.k, &d.lda, &d.ldb, &d.ldc, &d.alpha, &d.beta, &d.flags, &d.prefetch);
}

}  // namespace

GeneratedTile::GeneratedTile(const TileShape& shape) {
  // The generated function takes further, optional prefetch arguments; without prefetch it reads three only.
  const auto code = [&](int64_t depth, bool accumulate) {
    return reinterpret_cast<Code>(generate(shape, depth, accumulate));
  };
  const int64_t depth = instruction_set() == InstructionSet::kAvx2 ? kPartDepth : shape.depth;
  parts_ = (shape.depth + depth - 1) / depth;
  const int64_t rest = shape.depth - (parts_ - 1) * depth;
  a_step_ = shape.transposed_a ? depth * shape.lda : depth;
  b_step_ = depth * shape.ldb;
  if (parts_ > 1) first_ = code(depth, shape.accumulate);
  if (parts_ > 2) middle_ = code(depth, true);
  const bool is_whole = (parts_ < 2 || first_ != nullptr) && (parts_ < 3 || middle_ != nullptr);
  if (is_whole) last_ = code(rest, parts_ > 1 || shape.accumulate);
}

TileGemm::TileGemm(const TileShape& shape, TileProvider provider) : shape_(shape) {
  if (provider == TileProvider::kGenerated && suits_libxsmm(shape)) generated_ = GeneratedTile(shape);
}

void TileGemm::operator()(const float* a, const float* b, float* c) const {
  if (generated_) return generated_(a, b, c);
  portable_tile(shape_, a, b, c);
}

BatchTileGemm::BatchTileGemm(const TileShape& shape, TileProvider provider) : shape_(shape) {
  IPU_CHECK(!shape.transposed_a, "batch tiles read A by rows");
  if (provider != TileProvider::kGenerated || !suits_libxsmm(shape)) return;
  if (instruction_set() == InstructionSet::kAvx2 && shape.depth >= kShortDepth) {
    TileShape next = shape;
    next.accumulate = true;
    start_ = GeneratedTile(shape);
    if (start_) next_ = GeneratedTile(next);
    return;
  }
  DispatchArguments d(shape);
  // The list of addresses variant is not used: its code overwrites the caller's list (libxsmm 1.17).
  generated_ = reinterpret_cast<void*>(libxsmm_smmdispatch_reducebatch_offs(
      d.m, d.n, d.k, &d.lda, &d.ldb, &d.ldc, &d.alpha, &d.beta, &d.flags, &d.prefetch));
}

void BatchTileGemm::operator()(const float* a, const float* b, float* c, const uint64_t* a_offsets,
                               const uint64_t* b_offsets, int64_t count) const {
  if (next_) {
    const auto at = [](const float* from, uint64_t bytes) { return from + bytes / sizeof(float); };
    for (int64_t i = 0; i < count; ++i)
      (i == 0 ? start_ : next_)(at(a, a_offsets[i]), at(b, b_offsets[i]), c);
    return;
  }
  if (generated_ != nullptr) {
    using Offsets = const unsigned long long*;
    unsigned long long pairs = static_cast<unsigned long long>(count);
    reinterpret_cast<libxsmm_smmfunction_reducebatch_offs>(generated_)(
        b, a, c, &pairs, reinterpret_cast<Offsets>(b_offsets), reinterpret_cast<Offsets>(a_offsets));
    return;
  }
  portable_batch_tile(shape_, a, b, c, a_offsets, b_offsets, count);
}

}  // namespace ipu::kernels
