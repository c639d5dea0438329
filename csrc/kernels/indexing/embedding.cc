// Kernels "embedding" (weight [V,D], index) and "embedding_gradient" (dy, index) {rows, padding_idx}. The
// gradient adds rows in the order of the index, whatever the lanes: these take columns, or rows of a narrow
// table. Halves are added in f32.
#include <algorithm>
#include <cstring>

#include "kernels/data_movement/strided_copy.h"
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
    StopMeter meter(call);
    const int64_t first = count_ * lane / lanes_, last = count_ * (lane + 1) / lanes_;
    in_pieces(meter, last - first, row_bytes_ / 4 + kIndexedCost, [&](int64_t at, int64_t n) {
      for (int64_t i = first + at; i < first + at + n; ++i) {
        std::byte* to = call.results[0] + i * row_bytes_;
        const int64_t row = index.at(i);
        if (row >= 0)
          copy_bytes(meter, to, call.operands[0] + row * row_bytes_, row_bytes_);
        else
          clear_bytes(meter, to, row_bytes_);
      }
    });
  }

 private:
  int64_t rows_, row_bytes_, count_;
  int lanes_ = 1;
};

bool can_embed(const TensorSpec& weight, const TensorSpec& index, const TensorSpec& y) {
  return weight.is_contiguous() && is_index(index) && y.is_contiguous() && weight.dtype == y.dtype;
}

std::unique_ptr<PreparedKernel> prepare_embedding(const KernelRequest& request) {
  const TensorSpec &weight = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!can_embed(weight, index, y)) return nullptr;
  const int64_t width = weight.shape[1];
  return std::make_unique<EmbeddingKernel>(weight.shape[0], width * size_in_bytes(weight.dtype),
                                           element_count(index.shape), width);
}

Footprint footprint_of_embedding(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &weight = request.operands[0], &index = request.operands[1], &y = request.results[0];
  require(can_embed(weight, index, y), "takes rows of types or layouts that do not fit");
  require(weight.shape.size() == 2, "takes rows of a table that is no matrix");
  require(Checked(element_count(index.shape)) * weight.shape[1] == element_count(y.shape),
          "takes rows that do not fill its result");
  return footprint_of_views(request);
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
    // Rows of a lane are cleared at once, 2.5 times as fast as its columns of all rows; few rows that are added may all be in
    // one lane, many may not.
    constexpr int64_t kFewAdded = 8;
    by_columns_ = width >= 128 && count > rows / kFewAdded;
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes, 1, std::max<int64_t>(by_columns_ ? width / 64 : rows, 1)));
  }
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return half_ ? (rows_ + 3 * count_ + 2 * width_) * 4 : 0; }

  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, rows_);
    const int64_t extent = by_columns_ ? width_ : rows_;
    const int64_t first = extent * lane / lanes_, last = extent * (lane + 1) / lanes_;
    Part part{first, last, 0, width_};
    if (by_columns_) part = {0, rows_, first, last - first};
    StopMeter meter(call);
    const int64_t bytes = half_ ? 2 : 4;
    std::byte* const begin = call.results[0] + part.column * bytes;
    if (by_columns_) {
      const bool cleared = in_pieces(meter, rows_, part.columns + 1, [&](int64_t at, int64_t n) {
        for (int64_t r = at; r < at + n; ++r)
          clear_bytes(meter, begin + r * width_ * bytes, part.columns * bytes);
      });
      if (!cleared) return;
    } else {
      clear_bytes(meter, begin + part.row * width_ * bytes, (part.row_end - part.row) * width_ * bytes);
    }
    if (half_) return add_halves(call, index, part);
    auto* result = reinterpret_cast<float*>(call.results[0]);
    const auto* dy = reinterpret_cast<const float*>(call.operands[0]);
    const BlockFunction add = ops_.compute[static_cast<size_t>(OpCode::kAddF)];
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t row = index.at(i);
      if (row < part.row || row >= part.row_end || row == padding_) {
        if (meter.stops(1)) return;
        continue;
      }
      float* to = result + row * width_ + part.column;
      const float* from = dy + i * width_ + part.column;
      const bool goes_on = in_pieces(meter, part.columns, 1, [&](int64_t at, int64_t n) {
        add({.count = static_cast<size_t>(n), .result = to + at, .a = to + at, .b = from + at});
      });
      if (!goes_on) return;
    }
  }

 private:
  // What a lane makes: these rows, of each these columns.
  struct Part {
    int64_t row, row_end, column, columns;
  };

  // Positions of each row as a list in order, then one f32 sum for each row that has some. The index is read
  // once, into memory of this lane: all passes must see the same rows.
  void add_halves(const KernelCall& call, const IndexOperand& index, const Part& part) const {
    auto* head = reinterpret_cast<int32_t*>(call.scratch);  // the first of a row's, plus 1; 0: none
    int32_t* next = head + rows_;
    int32_t* row_of = next + count_;
    int32_t* position = row_of + count_;
    float* sum = reinterpret_cast<float*>(position + count_);
    float* row = sum + width_;
    StopMeter meter(call);
    clear_bytes(meter, reinterpret_cast<std::byte*>(head + part.row), (part.row_end - part.row) * 4);
    int64_t own = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t r = index.at(i);
      if (meter.stops(1)) return;
      if (r < part.row || r >= part.row_end || r == padding_) continue;
      row_of[own] = static_cast<int32_t>(r);
      position[own++] = static_cast<int32_t>(i);
    }
    for (int64_t i = own; i-- > 0;) {
      next[i] = head[row_of[i]];
      head[row_of[i]] = static_cast<int32_t>(i) + 1;
      if (meter.stops(kIndexedCost)) return;
    }
    const BlockFunction add = ops_.compute[static_cast<size_t>(OpCode::kAddF)],
                        widen = ops_.widen[static_cast<size_t>(DType::kF16)],
                        narrow = ops_.narrow[static_cast<size_t>(DType::kF16)];
    for (int64_t i = 0; i < own; ++i) {
      const int64_t r = row_of[i];
      if (meter.stops(1)) return;
      if (head[r] != static_cast<int32_t>(i) + 1) continue;
      bool goes_on = true;
      goes_on &= in_pieces(meter, part.columns, 1, [&](int64_t column, int64_t n) {
        const auto count = static_cast<size_t>(n);
        column += part.column;
        std::fill_n(sum, n, 0.0f);
        for (int32_t k = head[r]; k > 0 && goes_on; k = next[k - 1]) {
          widen({.count = count,
                 .result = row,
                 .a = call.operands[0] + (position[k - 1] * width_ + column) * 2});
          add({.count = count, .result = sum, .a = sum, .b = row});
          goes_on = !meter.stops(2 * n);
        }
        narrow({.count = count, .result = call.results[0] + (r * width_ + column) * 2, .a = sum});
      });
      if (!goes_on) return;
    }
  }

  bool half_, by_columns_ = false;
  int64_t rows_, width_, count_, padding_;
  const BlockOps& ops_;
  int lanes_ = 1;
};

bool can_add_rows(const TensorSpec& dy, const TensorSpec& index, const TensorSpec& y) {
  return dy.is_contiguous() && is_index(index) && y.is_contiguous() && dy.dtype == y.dtype &&
         (dy.dtype == DType::kF32 || dy.dtype == DType::kF16);
}

std::unique_ptr<PreparedKernel> prepare_embedding_gradient(const KernelRequest& request) {
  const TensorSpec &dy = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!can_add_rows(dy, index, y)) return nullptr;
  return std::make_unique<EmbeddingGradientKernel>(dy.dtype, y.shape[0], y.shape[1],
                                                   element_count(index.shape),
                                                   request.attributes.integer("padding_idx", -1));
}

Footprint footprint_of_embedding_gradient(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &dy = request.operands[0], &index = request.operands[1], &y = request.results[0];
  require(can_add_rows(dy, index, y), "adds rows of types or layouts that do not fit");
  require(y.shape.size() == 2, "adds rows to a table that is no matrix");
  const int64_t count = element_count(index.shape);
  require(Checked(count) * y.shape[1] == element_count(dy.shape), "adds rows that are not one per index");
  require(count <= INT32_MAX, "has too many indices");
  integer_of(request, "padding_idx", -1);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("embedding", prepare_embedding, footprint_of_embedding);
IPU_REGISTER_KERNEL("embedding_gradient", prepare_embedding_gradient, footprint_of_embedding_gradient);

}  // namespace
}  // namespace ipu::kernels
