// The product of product.h on f16 operands and results, C[m,n] = activation(A[m,k] · B[k,n] + bias) + addend, rounded
// after the bias and relu, after gelu and after the addition, as the ops would be that these stand for:
// blocks of A and B are widened into scratch, multiplied by the f32 tiles while they are hot, and tiles of
// the result narrowed once. Few rows read B where it is: such a product is as fast as memory delivers the
// weight, at half of f32's bytes. Same rules for lanes and bits as product.h.
#pragma once

#include <cstddef>

#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {

class HalfProduct {
 public:
  explicit HalfProduct(const ProductShape& shape);

  int lanes() const { return lanes_m_ * lanes_n_; }
  int64_t scratch_bytes() const { return scratch_floats_ * static_cast<int64_t>(sizeof(float)); }
  // `addend`, which may be null as bias may, lies like a plain C.
  void run(const Half* a, const Half* b, const Half* bias, Half* c, std::byte* scratch, int lane,
           StopMeter& meter, const Half* addend = nullptr) const;

 private:
  enum class Method : uint8_t {
    kTiles,      // B read where it is
    kWideTiles,  // blocks of B, of which many rows of A make use or which are transposed, widened into panels
    kFewRows,    // all of A widened, B read where it is, two chains
    kDots,       // very few rows against a transposed B, read where it is
    kTransposed,  // the same with more rows: A and C are transposed
  };
  struct Range {
    int64_t first, last;
  };
  // Tiles find B in scratch but where it lies in panels and is read there.
  bool reads_panels() const {
    return method_ == Method::kTiles && shape_.b.form == MatrixSource::Form::kPanels;
  }
  static Range part(int64_t count, int64_t grain, int parts, int index);
  void choose_lanes();
  void make_tiles();
  // C and what is done to sums on their way into it.
  struct Target {
    const Half *bias, *addend;
    Half* c;
  };
  // Whether a tile's own end makes C of its sums.
  bool is_simple(const Target& target) const {
    return target.addend == nullptr && shape_.activation != Activation::kGelu;
  }
  void run_tiles(const Half* a, const Half* b, const Target& target, float* scratch, Range rows,
                 Range columns, StopMeter& meter) const;
  void run_few_rows(const Half* a, const Half* b, const Target& target, float* scratch, Range columns,
                    StopMeter& meter) const;
  void run_dots(const Half* a, const Half* b, const Target& target, float* scratch, Range columns,
                StopMeter& meter) const;
  void run_transposed(const Half* a, const Half* b, const Target& target, float* scratch, Range columns,
                      StopMeter& meter) const;
  static const float* wide_bias(const Half* bias, int64_t column, int64_t columns, float* space);
  void clear_padding(Half* to, int64_t rows, int64_t columns) const;
  // Rows and columns (64 at most) of C from (row, column) on; `bias` of these columns.
  void finish(const Target& target, const float* sums, int64_t ld, int64_t row, int64_t column, int64_t rows,
              int64_t columns, const float* bias) const;
  int64_t c_index(int64_t row, int64_t column) const;
  int64_t wide_a_floats() const;

  ProductShape shape_;
  Method method_ = Method::kTiles;
  int64_t column_step_ = 64, row_step_ = 64;
  int64_t piece_ = 0, pieces_ = 1;              // of k
  int64_t row_grain_ = 64;                      // of lanes
  int64_t block_rows_ = 0, block_columns_ = 0;  // of C whose sums wait for the next piece, as panels
  int64_t a_pitch_ = 0;                         // between lines of A widened
  int64_t ldc_ = 0;
  int lanes_m_ = 1, lanes_n_ = 1;
  int64_t scratch_floats_ = 0;
  // kWideTiles: [full rows or remainder][inner or last columns][inner or last piece of k][first piece or
  // later]
  TileGemm tiles_[2][2][2][2];
  TransposedProduct transposed_;
};

}  // namespace ipu::kernels
