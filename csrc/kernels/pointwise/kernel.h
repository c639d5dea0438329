// The prepared form of kernel "pointwise" and how it runs: steps over pointer slots, block by block. 32-bit
// contiguous operands and results are used where they lie; everything else passes through registers in
// scratch. A value that is one number for a whole block is kept as a 64-byte splat. Made by steps.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {

inline constexpr size_t kSplatLanes = kSplatBytes / 4;

inline bool is_register_sized(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kU32;
}

// Memory of one operand (or of an index space for iota) seen in collapsed dimensions.
struct View {
  int operand = -1;  // -1: iota, the offset itself is the value
  DType dtype = DType::kI32;
  int64_t element_bytes = 4;
  Strides strides;
};

enum class StepKind : uint8_t { kCompute, kSplat, kGather, kWiden, kStore };

struct Step {
  StepKind kind = StepKind::kCompute;
  bool uniform = false;  // the result is a splat
  BlockFunction function = nullptr;
  uint16_t result = 0, a = 0, b = 0, c = 0;  // slots
  uint8_t stride_a = 1, stride_b = 1, stride_c = 1;
  uint8_t halves = 0;  // as in BlockCall
  int16_t view = -1;
};

struct Constant {
  uint16_t slot;
  uint32_t bits;
};

// Columns of padding in the last panel of a packed matrix: they are kept zero.
struct Padding {
  int64_t first = 0, width = 1,
          valid = 1;  // elements from `first` on: those with (i - first) % width >= valid
  bool any() const { return valid < width; }
};

class PointwiseKernel final : public PreparedKernel {
 public:
  std::vector<View> views;
  CollapsedDims dims;  // strides: one per view
  std::optional<BlockPlan> plan;
  int lane_count = 1;
  Padding padding;
  std::vector<int64_t> result_bytes;  // per element of each result
  // Slots: pointers into memory (views read in place, then results), then registers and splats in scratch.
  struct InPlace {
    uint16_t slot;
    int16_t view;
  };
  std::vector<InPlace> in_place;
  uint16_t first_result_slot = 0, first_register_slot = 0, slots = 0;
  std::vector<int64_t> slot_offsets;  // of registers, from the start of scratch
  int64_t scratch = 0;
  std::vector<Constant> constants;
  std::vector<Step> once, each;  // before the first block; per block

  int lanes() const override { return lane_count; }
  int64_t scratch_bytes() const override { return scratch; }
  void run(const KernelCall& call, int lane) const override;

 private:
  void locate(int64_t run, int64_t row, int64_t* offsets) const;
  void execute(const Step& step, const KernelCall& call, std::byte** slot, const int64_t* offsets,
               int64_t rows, size_t count) const;
  void clear_padding(std::byte* const* slot, int64_t start, size_t count) const;
};

}  // namespace ipu::kernels
