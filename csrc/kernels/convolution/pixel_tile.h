// A tile of a convolution whose rows lie anywhere: some pixels, each read where it is, times one tap's weights of
// 64 output channels. Meanwhile it asks for what the next tile will read: weights that come from memory and serve few
// pixels take as long to arrive as to be multiplied, and no prefetcher of a processor knows where the next tap
// lies. Compiled by Highway for several instruction sets; the same bits on all, those of tile_gemm.h.
#pragma once

#include <cstdint>

namespace ipu::kernels {

struct PixelTile {
  static constexpr int64_t kColumns = 64;
  const float* const* a;  // of each pixel, `depth` numbers
  float* const* c;        // of each pixel, kColumns sums
  int64_t rows = 0;       // pixels
  int64_t depth = 0;
  const float* b = nullptr;      // [depth][kColumns]
  const float* ahead = nullptr;  // as many numbers, to be brought near; null: none
};

// c[r][j] += Σ_p a[r][p] · b[p][j], one chain of fused multiply-adds in the order of p.
void add_pixel_tile(const PixelTile& tile);

}  // namespace ipu::kernels
