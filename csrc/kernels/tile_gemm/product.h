// A product of any size, C[m,n] = activation(A[m,k] · B[k,n] + bias) + addend, cut into tiles for the
// caches and into lanes for the workers. Decides from the shape alone: which loop, which cut, what to pack
// into scratch. k is summed in pieces of at most 512 whose partial sums are added in order (shorter chains
// round less), never over lanes, so bits do not depend on lanes. Not here: batches and strides of user
// operands (kernels/matmul).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stop_meter.h"
#include "kernels/tile_gemm/panels.h"
#include "kernels/tile_gemm/tile_gemm.h"
#include "kernels/tile_gemm/transposed_product.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false;  // A is stored [k, m]
  int64_t lda = 0;
  MatrixSource b;         // [k, n]
  bool packed_c = false;  // C is a packed [m, n] matrix, padding included
  int64_t ldc = 0;        // of plain C
  Activation activation = Activation::kNone;
  int max_lanes = 16;
  TileProvider provider = TileProvider::kGenerated;
};

// Estimated time of a product on one worker; what the rules for lanes go by.
double product_microseconds(int64_t m, int64_t n, int64_t k);

class Product {
 public:
  explicit Product(const ProductShape& shape);

  int lanes() const { return lanes_m_ * lanes_n_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // per lane
  // `addend`, which may be null as bias may, lies like a plain C.
  void run(const float* a, const float* b, const float* bias, float* c, std::byte* scratch, int lane,
           StopMeter& meter, const float* addend = nullptr) const;

 private:
  enum class Method : uint8_t {
    kTiles,        // B is read where it is
    kPackedTiles,  // B is packed block by block into scratch
    kDots,         // very few rows against a transposed B, read where it is
    kTransposed,   // the same with more rows: A and C are transposed
    kRow,          // one row against plain rows of B, in wide strips
  };
  struct Range {
    int64_t first, last;
  };
  static Range part(int64_t count, int64_t grain, int parts, int index);
  void choose_method();
  bool copies_lines_of_a() const;
  void choose_lanes();
  void make_tiles();
  const TileGemm& tile(bool full_rows, bool last_columns, bool last_piece, bool partial) const {
    return tiles_[full_rows][last_columns][last_piece][partial];
  }
  // What is done to sums on their way into C.
  struct End {
    const float *bias, *addend;
  };
  struct Space {  // of a lane
    float *block, *partial;
  };
  void run_tiles(const float* a, const float* b, const End& end, float* c, std::byte* scratch, Range rows,
                 Range columns, StopMeter& meter) const;
  void run_copied(const float* a, const float* b, const End& end, float* c, const Space& space, Range rows,
                  Range columns, StopMeter& meter) const;
  bool run_column(const float* a, int64_t a_row, const float* b, const End& end, float* c, const Space& space,
                  Range rows, int64_t column, int64_t piece, StopMeter& meter) const;
  void run_dots(const float* a, const float* b, const End& end, float* c, Range rows, Range columns,
                StopMeter& meter) const;
  int64_t dot_columns() const;  // of B at a time
  void run_row(const float* a, const float* b, const End& end, float* c, std::byte* scratch, Range columns,
               StopMeter& meter) const;
  // Rows and columns of C from (row, column) on, `ld` apart.
  void finish(const End& end, float* c, int64_t ld, int64_t row, int64_t column, int64_t rows,
              int64_t columns) const {
    finish_tile(c + c_index(row, column), ld, rows, columns,
                end.bias == nullptr ? nullptr : end.bias + column, shape_.activation,
                end.addend == nullptr ? nullptr : end.addend + c_index(row, column));
  }
  int64_t c_index(int64_t row, int64_t column) const;

  ProductShape shape_;
  Method method_ = Method::kTiles;
  bool copies_a_ = false;     // its lines lie where they push one another out of the caches, or far apart
  int64_t copy_pitch_ = 0;    // from line to line of the copy
  int64_t column_step_ = 64;  // columns of a tile: the panel width
  int64_t row_step_ = 64;
  int64_t piece_ = 0, pieces_ = 1;  // of k
  int64_t ldc_ = 0;                 // between rows of C inside a tile
  int lanes_m_ = 1, lanes_n_ = 1;
  int64_t scratch_bytes_ = 0;
  // [full rows or remainder][inner or last column panel][inner or last piece of k][into C or into a partial
  // tile]
  TileGemm tiles_[2][2][2][2];
  TransposedProduct transposed_;
};

}  // namespace ipu::kernels
