// Kernel "half_partials_product": start + a · b in f16, as the machine sums with f16 partials (docs/types.md): 16 products at
// a time are added in f32, in order, and the sum is rounded to f16 between them. Products of halves are exact in f32, so
// fused and separate additions give the same bits. Tiles of the result are lanes' work; made to be right, not fast.
#include <algorithm>
#include <array>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kGroup = 16;  // products between two roundings
constexpr int64_t kTileRows = 32, kTileColumns = 64;
constexpr int64_t kMostLanes = 16;

struct TileScratch {
  std::array<float, kTileRows * kTileColumns> sums;
  std::array<float, kTileRows * kGroup> a;
  std::array<float, kGroup * kTileColumns> b;
  std::array<uint16_t, kTileRows * kTileColumns> rounded;
};

class HalfPartials final : public PreparedKernel {
 public:
  explicit HalfPartials(const KernelRequest& request)
      : batches_(request.operands[0].shape[0]),
        m_(request.operands[0].shape[1]),
        k_(request.operands[0].shape[2]),
        n_(request.operands[1].shape[2]),
        row_tiles_((m_ + kTileRows - 1) / kTileRows),
        column_tiles_((n_ + kTileColumns - 1) / kTileColumns),
        tiles_(batches_ * row_tiles_ * column_tiles_),
        widen_(block_ops().widen[static_cast<size_t>(DType::kF16)]),
        narrow_(block_ops().narrow[static_cast<size_t>(DType::kF16)]) {}

  int lanes() const override { return static_cast<int>(std::clamp<int64_t>(tiles_, 1, kMostLanes)); }
  int64_t scratch_bytes() const override { return sizeof(TileScratch); }

  void run(const KernelCall& call, int lane) const override {
    auto& scratch = *reinterpret_cast<TileScratch*>(call.scratch);
    StopMeter meter(call);
    for (int64_t tile = tiles_ * lane / lanes(); tile < tiles_ * (lane + 1) / lanes(); ++tile) {
      if (meter.stops(kTileRows * kTileColumns * (k_ + 1))) return;
      multiply(call, tile, scratch);
    }
  }

 private:
  static void convert(BlockFunction function, const void* from, int64_t count, void* to) {
    BlockCall call;
    call.count = static_cast<size_t>(count);
    call.a = from;
    call.result = to;
    function(call);
  }

  void multiply(const KernelCall& call, int64_t tile, TileScratch& scratch) const {
    const int64_t column = tile % column_tiles_ * kTileColumns,
                  row = tile / column_tiles_ % row_tiles_ * kTileRows;
    const int64_t batch = tile / column_tiles_ / row_tiles_;
    const int64_t rows = std::min(kTileRows, m_ - row), columns = std::min(kTileColumns, n_ - column);
    const auto* a = reinterpret_cast<const uint16_t*>(call.operands[0]) + (batch * m_ + row) * k_;
    const auto* b = reinterpret_cast<const uint16_t*>(call.operands[1]) + batch * k_ * n_ + column;
    const int64_t corner = (batch * m_ + row) * n_ + column;
    for (int64_t r = 0; r < rows; ++r)
      convert(widen_, reinterpret_cast<const uint16_t*>(call.operands[2]) + corner + r * n_, columns,
              &scratch.sums[r * kTileColumns]);
    for (int64_t first = 0; first < k_; first += kGroup) {
      const int64_t depth = std::min(kGroup, k_ - first);
      for (int64_t r = 0; r < rows; ++r) convert(widen_, a + r * k_ + first, depth, &scratch.a[r * kGroup]);
      for (int64_t k = 0; k < depth; ++k)
        convert(widen_, b + (first + k) * n_, columns, &scratch.b[k * kTileColumns]);
      for (int64_t r = 0; r < rows; ++r) add_group(scratch, r, depth, columns);
      const int64_t stored = (rows - 1) * kTileColumns + columns;
      convert(narrow_, scratch.sums.data(), stored, scratch.rounded.data());
      convert(widen_, scratch.rounded.data(), stored, scratch.sums.data());
    }
    for (int64_t r = 0; r < rows; ++r)
      convert(narrow_, &scratch.sums[r * kTileColumns], columns,
              reinterpret_cast<uint16_t*>(call.results[0]) + corner + r * n_);
  }

  static void add_group(TileScratch& scratch, int64_t row, int64_t depth, int64_t columns) {
    float* sums = &scratch.sums[row * kTileColumns];
    for (int64_t k = 0; k < depth; ++k) {
      const float factor = scratch.a[row * kGroup + k];
      const float* b = &scratch.b[k * kTileColumns];
      for (int64_t c = 0; c < columns; ++c) sums[c] += factor * b[c];
    }
  }

  int64_t batches_, m_, k_, n_, row_tiles_, column_tiles_, tiles_;
  BlockFunction widen_, narrow_;
};

bool can_sum_partials(const KernelRequest& request) {
  const TensorSpec &a = request.operands[0], &b = request.operands[1], &start = request.operands[2];
  const TensorSpec& y = request.results[0];
  for (const TensorSpec* spec : {&a, &b, &start, &y})
    if (spec->dtype != DType::kF16 || spec->shape.size() != 3 || !spec->is_contiguous()) return false;
  return b.shape[0] == a.shape[0] && b.shape[1] == a.shape[2] &&
         y.shape == Shape{a.shape[0], a.shape[1], b.shape[2]} && start.shape == y.shape;
}

std::unique_ptr<PreparedKernel> prepare_half_partials(const KernelRequest& request) {
  if (!can_sum_partials(request)) return nullptr;
  return std::make_unique<HalfPartials>(request);
}

Footprint footprint_of_half_partials(const KernelRequest& request) {
  require_counts(request, 3, 1);
  require_sound(request);
  require(can_sum_partials(request), "sums partials of types, shapes or layouts that do not fit");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("half_partials_product", prepare_half_partials, footprint_of_half_partials);

}  // namespace
}  // namespace ipu::kernels
