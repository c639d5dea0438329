// The product of a step of a recurrent layer: a few rows of f32 with a weight of f32 or f16 that stays the
// same for all steps. A weight that is not stored as the product wants to read it is copied to panels of f32
// in scratch, once per lane, when the steps pay for that; an f16 weight is but for very few rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {

class StepProduct {
 public:
  StepProduct() = default;
  // B is the weight [depth, columns], however it is stored; blocks have `rows` rows, the last one `last_rows`.
  // `pitch`: between rows of C; 0: they are dense.
  StepProduct(const MatrixSource& b, DType dtype, int64_t rows, int64_t last_rows, int64_t steps,
              int64_t pitch = 0);

  bool copies_weight() const { return copies_; }

  int64_t scratch_bytes() const { return panel_bytes_ + work_bytes_; }
  // Before the first step of a lane. False: stopped.
  bool load(const std::byte* weight, std::byte* scratch, StopMeter& meter) const;
  // c[rows, columns] = a[rows, depth] · B, rows of a dense. `weight` and `scratch` as load() had them.
  void run(const float* a, const std::byte* weight, float* c, int64_t rows, std::byte* scratch,
           StopMeter& meter) const;

 private:
  void run_on_halves(const float* a, const Half* weight, float* c, int64_t rows, StopMeter& meter) const;

  MatrixSource stored_;
  bool is_half_ = false, copies_ = false, reads_halves_ = false;
  int64_t panel_bytes_ = 0, work_bytes_ = 0, rows_ = 0, pitch_ = 0;
  Product whole_{ProductShape{}}, last_{ProductShape{}};
};

}  // namespace ipu::kernels
