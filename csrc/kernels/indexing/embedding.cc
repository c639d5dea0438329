// Kernels "embedding" (weight [V,D], index) and "embedding_gradient" (dy, index) {rows, padding_idx}. The
// gradient adds rows in the order of the index, whatever the lanes: f32 lanes take columns (or rows of a
// narrow table), f16 lanes take rows and add in f32.
#include <algorithm>
#include <cstring>

#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

class EmbeddingKernel final : public PreparedKernel {
 public:
  EmbeddingKernel(int64_t rows, int64_t row_bytes, int64_t count, int64_t width)
      : rows_(rows), row_bytes_(row_bytes), count_(count) {
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes_for_elements(count * width), 1, std::max<int64_t>(count, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, rows_);
    for (int64_t i = count_ * lane / lanes_; i < count_ * (lane + 1) / lanes_; ++i) {
      std::byte* to = call.results[0] + i * row_bytes_;
      const int64_t row = index.at(i);
      if (row >= 0)
        std::memcpy(to, call.operands[0] + row * row_bytes_, static_cast<size_t>(row_bytes_));
      else
        std::memset(to, 0, static_cast<size_t>(row_bytes_));
    }
  }

 private:
  int64_t rows_, row_bytes_, count_;
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> prepare_embedding(const KernelRequest& request) {
  const TensorSpec &weight = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!weight.is_contiguous() || !is_index(index) || !y.is_contiguous() || weight.dtype != y.dtype)
    return nullptr;
  const int64_t width = weight.shape[1];
  return std::make_unique<EmbeddingKernel>(weight.shape[0], width * size_in_bytes(weight.dtype),
                                           element_count(index.shape), width);
}

class EmbeddingGradientKernel final : public PreparedKernel {
 public:
  EmbeddingGradientKernel(DType dtype, int64_t rows, int64_t width, int64_t count, int64_t padding)
      : half_(dtype == DType::kF16),
        rows_(rows),
        width_(width),
        count_(count),
        padding_(padding),
        ops_(block_ops()) {
    const int64_t lanes = lanes_for_elements((rows + count) * width);
    by_columns_ = !half_ && width >= 128;
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes, 1, std::max<int64_t>(by_columns_ ? width / 64 : rows, 1)));
  }
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return half_ ? (rows_ + 1 + count_ + 2 * width_) * 4 : 0; }

  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, rows_);
    const int64_t extent = by_columns_ ? width_ : rows_;
    const int64_t first = extent * lane / lanes_, last = extent * (lane + 1) / lanes_;
    if (half_) return add_halves(call, index, first, last);
    auto* result = reinterpret_cast<float*>(call.results[0]);
    const auto* dy = reinterpret_cast<const float*>(call.operands[0]);
    const int64_t row_begin = by_columns_ ? 0 : first, row_end = by_columns_ ? rows_ : last;
    const int64_t column = by_columns_ ? first : 0, columns = by_columns_ ? last - first : width_;
    for (int64_t r = row_begin; r < row_end; ++r) std::fill_n(result + r * width_ + column, columns, 0.0f);
    const BlockFunction add = ops_.compute[static_cast<size_t>(OpCode::kAddF)];
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t row = index.at(i);
      if (row < row_begin || row >= row_end || row == padding_) continue;
      float* to = result + row * width_ + column;
      add({.count = static_cast<size_t>(columns), .result = to, .a = to, .b = dy + i * width_ + column});
    }
  }

 private:
  // Positions of each row in order (counting sort), then one f32 sum per row.
  void add_halves(const KernelCall& call, const IndexOperand& index, int64_t first, int64_t last) const {
    auto* start = reinterpret_cast<int32_t*>(call.scratch);
    int32_t* position = start + rows_ + 1;
    float* sum = reinterpret_cast<float*>(position + count_);
    float* row = sum + width_;
    std::fill_n(start, rows_ + 1, 0);
    auto counts = [&](int64_t r) { return r >= first && r < last && r != padding_; };
    for (int64_t i = 0; i < count_; ++i)
      if (int64_t r = index.at(i); counts(r)) ++start[r + 1];
    for (int64_t r = 0; r < rows_; ++r) start[r + 1] += start[r];
    for (int64_t i = 0; i < count_; ++i)
      if (int64_t r = index.values[i]; counts(r)) position[start[r]++] = static_cast<int32_t>(i);
    // start[r] is now the end of row r.
    const BlockFunction add = ops_.compute[static_cast<size_t>(OpCode::kAddF)];
    const auto width = static_cast<size_t>(width_);
    for (int64_t r = first; r < last; ++r) {
      std::fill_n(sum, width_, 0.0f);
      for (int32_t k = r == 0 ? 0 : start[r - 1]; k < start[r]; ++k) {
        ops_.widen[static_cast<size_t>(DType::kF16)](
            {.count = width, .result = row, .a = call.operands[0] + position[k] * width_ * 2});
        add({.count = width, .result = sum, .a = sum, .b = row});
      }
      ops_.narrow[static_cast<size_t>(DType::kF16)](
          {.count = width, .result = call.results[0] + r * width_ * 2, .a = sum});
    }
  }

  bool half_, by_columns_ = false;
  int64_t rows_, width_, count_, padding_;
  const BlockOps& ops_;
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> prepare_embedding_gradient(const KernelRequest& request) {
  const TensorSpec &dy = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!dy.is_contiguous() || !is_index(index) || !y.is_contiguous() || dy.dtype != y.dtype) return nullptr;
  if (dy.dtype != DType::kF32 && dy.dtype != DType::kF16) return nullptr;
  return std::make_unique<EmbeddingGradientKernel>(dy.dtype, y.shape[0], y.shape[1],
                                                   element_count(index.shape),
                                                   request.attributes.integer("padding_idx", -1));
}

IPU_REGISTER_KERNEL("embedding", prepare_embedding);
IPU_REGISTER_KERNEL("embedding_gradient", prepare_embedding_gradient);

}  // namespace
}  // namespace ipu::kernels
