// What ends a tile of a convolution while it is in the cache. Compiled by Highway for several instruction sets;
// each gives the same bits, those of the same operations one after the other.
#pragma once

#include <cstdint>

#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

// What convolutions end in, by output channel: any of it may be null. The addend lies as the output does.
struct TileEnd {
  const float *scale = nullptr, *bias = nullptr, *addend = nullptr;
  Activation activation = Activation::kNone;

  bool is_nothing() const {
    return scale == nullptr && bias == nullptr && addend == nullptr && activation == Activation::kNone;
  }
  // That of a tile whose first element is channel `channel` and `element` of the output.
  TileEnd at(int64_t channel, int64_t element) const {
    return {scale == nullptr ? nullptr : scale + channel, bias == nullptr ? nullptr : bias + channel,
            addend == nullptr ? nullptr : addend + element, activation};
  }
};

// The last piece of a tile's sums beside the tile, rows `pitch` apart: what is read there and written to the tile
// does not wait for stores to rows of the tile, which lie far apart, often at the same place of their pages.
struct LastPiece {
  const float* sums = nullptr;  // null: they are in the tile
  int64_t pitch = 0;
  bool is_only = false;  // the tile holds nothing yet
};

// Asks for the addend of a tile before its sums are made: far rows come from memory one by one otherwise.
inline void bring_addend(const TileEnd& end, int64_t ldc, int64_t rows, int64_t columns) {
  if (end.addend == nullptr) return;
  constexpr int64_t kLine = 16;  // floats of a cache line
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(end.addend + i * ldc + j);
}

// c[i][j] = activation((c[i][j] + last[i][j]) * scale[j] + bias[j] + addend[i][j]), rows of c and addend ldc apart.
void end_tile(float* c, int64_t ldc, int64_t rows, int64_t columns, const TileEnd& end,
              const LastPiece& last = {});

}  // namespace ipu::kernels
