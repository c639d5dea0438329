// Few rows of A against a transposed B: Cᵀ[n,m] = S[n,k] · Aᵀ[k,m], where S is B as it is stored, by rows or in panels. S is
// read once, where it is (halves are widened tile by tile); A and C, which are small, are transposed in scratch. Sums are those
// of the other tiles, bit for bit: pieces of k as in product.h, or one chain as in half_product.h. Not here: bias, activation,
// lanes (product.cc, half_product.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/stop_meter.h"
#include "kernels/tile_gemm/panels.h"
#include "kernels/tile_gemm/tile_gemm.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

struct TransposedShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0;
  MatrixSource b;            // [k, n], transposed
  int64_t piece = 0;         // of k, a multiple of 16 or k
  bool one_chain = false;    // over all pieces, not one for each
  bool halves = false;       // A and B
  int64_t lane_columns = 0;  // most columns of C that one call of run computes
  TileProvider provider = TileProvider::kGenerated;
};

class TransposedProduct {
 public:
  static constexpr int64_t kRows = 64;  // of S in a tile

  // Whether turning the product pays from `fewest_rows` of A on, which lies by rows, as C does.
  static bool suits(const MatrixSource& b, int64_t m, int64_t k, int64_t fewest_rows) {
    constexpr int64_t kMostRows = 64, kLeastDepth = 128;
    return b.is_transposed() && m >= fewest_rows && m <= kMostRows && k >= kLeastDepth;
  }
  // How many lanes such a product of `columns` is cut into at most, each of which transposes all of A.
  static int most_lanes(int64_t columns);

  TransposedProduct() = default;
  explicit TransposedProduct(const TransposedShape& shape);

  int64_t scratch_floats() const { return scratch_floats_; }
  // Columns [first, last) of C, `first` a multiple of kRows, to c[0] and on in rows of ldc; `b` is the start of S. False: it
  // was asked to stop.
  bool run(const float* a, const float* b, float* c, int64_t ldc, float* scratch, int64_t first, int64_t last,
           StopMeter& meter) const;
  bool run(const Half* a, const Half* b, float* c, int64_t ldc, float* scratch, int64_t first, int64_t last,
           StopMeter& meter) const;

 private:
  struct Tiles {
    int64_t depth;
    bool accumulate;
    TileGemm of[2];  // fewer than kRows rows, kRows
  };
  // What one panel gives to one piece of k.
  struct Segment {
    int64_t start, depth;  // of k
    bool begins, ends;     // a piece
    size_t tiles;
  };
  size_t tiles_for(int64_t depth, bool accumulate);
  template <class T>
  bool run_blocks(const T* a, const T* b, float* c, int64_t ldc, float* scratch, int64_t first, int64_t last,
                  StopMeter& meter) const;
  int64_t a_floats() const { return std::min(shape_.k, shape_.piece) * pitch_; }
  int64_t wide_floats() const { return shape_.halves ? kRows * width_ : 0; }

  TransposedShape shape_;
  int64_t width_ = 0;                          // of a panel of S (by rows: of what is read at a time),
  int64_t row_stride_ = 0, panel_stride_ = 0;  // whose rows, and which, lie so many elements apart
  int64_t pitch_ = 0;                          // columns of a tile: m and what fills whole vectors
  int64_t block_columns_ = 0;                  // of C that wait in scratch
  std::vector<Tiles> tiles_;                   // a few depths
  std::vector<Segment> segments_;
  int64_t scratch_floats_ = 0;
};

}  // namespace ipu::kernels
