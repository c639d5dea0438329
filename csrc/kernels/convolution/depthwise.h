// Depthwise convolution (one input channel a group) and, with one output channel a group, its input gradient: vectors
// run over output channels, each output pixel is one chain over the taps in order. Input channels that several output
// channels read are repeated in a copy. Same description and lanes as tap_product.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/tap_product.h"

namespace ipu::kernels {

class DepthwiseProduct {
 public:
  explicit DepthwiseProduct(TapProductShape shape);  // groups == input channels
  int lanes() const { return lanes_; }
  int64_t scratch_bytes() const { return scratch_floats_ * static_cast<int64_t>(sizeof(float)); }
  void run(const void* input, const void* weight, const EndOperands& end, void* output, std::byte* scratch,
           int lane, StopMeter& meter) const;

 private:
  TapProductShape shape_;
  int64_t channels_, multiplier_;  // of output; for each input channel
  int64_t pad_left_ = 0, pad_right_ = 0;
  int lanes_ = 1;
  int64_t weight_floats_ = 0, bias_floats_ = 0, rows_floats_ = 0, narrow_floats_ = 0, row_floats_ = 0,
          tap_slots_ = 0, scratch_floats_ = 0;
};

}  // namespace ipu::kernels
