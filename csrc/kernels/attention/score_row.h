// What is done to a row of scores before its softmax, compiled per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipu::kernels {

// Each of the three is left out where it says nothing: a factor of 1, null pointers.
struct ScoreEnd {
  float scale = 1.0f;
  const uint8_t* mask = nullptr;  // scores where it is not `keeps` become `blocked`
  bool keeps = true;
  float blocked = 0.0f;
  const float* addend = nullptr;
};

using ScoreRow = void (*)(float* scores, size_t count, const ScoreEnd& end);

ScoreRow score_row();  // for active_isa()

}  // namespace ipu::kernels
