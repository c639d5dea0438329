// Kernel "index_copy" (x, index [n], src) {dim}: x with whole slices replaced by number; of equal numbers the
// last stays. Where the result lies in the memory of x only the slices are touched: the cost is that of src,
// however large x is, and so is the cut into lanes.
#include <algorithm>

#include "kernels/data_movement/strided_copy.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

class IndexCopyKernel final : public PreparedKernel {
 public:
  // Tensors as [outer][size of x, or count][inner bytes].
  IndexCopyKernel(int64_t outer, int64_t size, int64_t count, int64_t inner, int64_t element_bytes)
      : outer_(outer),
        size_(size),
        count_(count),
        bytes_(inner * element_bytes),
        element_bytes_(element_bytes) {
    const int64_t wanted = lanes_for_elements(outer * count * inner);
    by_columns_ = outer < wanted && inner >= kColumns * wanted;
    const int64_t parts = by_columns_ ? inner / kColumns : outer;
    lanes_ = static_cast<int>(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(parts, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, size_);
    const int64_t extent = by_columns_ ? bytes_ / element_bytes_ : outer_;
    const int64_t first = extent * lane / lanes_, last = extent * (lane + 1) / lanes_;
    const int64_t begin = by_columns_ ? first * element_bytes_ : 0;
    const int64_t width = by_columns_ ? (last - first) * element_bytes_ : bytes_;
    const std::byte *x = call.operands[0], *source = call.operands[2];
    std::byte* result = call.results[0];
    StopMeter meter(call);
    for (int64_t o = by_columns_ ? 0 : first; o < (by_columns_ ? outer_ : last); ++o) {
      const int64_t base = o * size_ * bytes_ + begin;
      if (x != result) {
        if (width == bytes_) {
          copy_bytes(meter, result + base, x + base, size_ * bytes_);
        } else {
          in_pieces(meter, size_, width, [&](int64_t at, int64_t n) {
            for (int64_t r = at; r < at + n; ++r)
              copy_bytes(meter, result + base + r * bytes_, x + base + r * bytes_, width);
          });
        }
        if (meter.stops(1)) return;
      }
      in_pieces(meter, count_, width / 4 + kIndexedCost, [&](int64_t at, int64_t n) {
        for (int64_t i = at; i < at + n; ++i)
          if (const int64_t k = index.at(i); k >= 0)
            copy_bytes(meter, result + base + k * bytes_, source + (o * count_ + i) * bytes_ + begin, width);
      });
    }
  }

 private:
  static constexpr int64_t kColumns = 64;  // elements of a slice a lane takes at least
  int64_t outer_, size_, count_, bytes_, element_bytes_;
  bool by_columns_ = false;
  int lanes_ = 1;
};

bool can_copy(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &source = request.operands[2], &y = request.results[0];
  return x.is_contiguous() && is_index(request.operands[1]) && source.is_contiguous() && y.is_contiguous() &&
         x.dtype == y.dtype && source.dtype == y.dtype && x.shape == y.shape;
}

std::unique_ptr<PreparedKernel> prepare_index_copy(const KernelRequest& request) {
  if (!can_copy(request)) return nullptr;
  const Shape& shape = request.operands[0].shape;
  const auto dim = static_cast<size_t>(request.attributes.integer("dim"));
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != dim) (d < dim ? outer : inner) *= shape[d];
  return std::make_unique<IndexCopyKernel>(outer, shape[dim], element_count(request.operands[1].shape), inner,
                                           size_in_bytes(request.operands[0].dtype));
}

Footprint footprint_of_index_copy(const KernelRequest& request) {
  require_counts(request, 3, 1);
  require_sound(request);
  require(can_copy(request), "replaces slices of types, shapes or layouts that do not fit");
  const Shape& shape = request.operands[0].shape;
  const auto dim = static_cast<size_t>(dimension_of(request, "dim", shape.size()));
  Checked slices = element_count(request.operands[1].shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != dim) slices = slices * shape[d];
  require(slices == element_count(request.operands[2].shape), "replaces slices that are not one per index");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("index_copy", prepare_index_copy, footprint_of_index_copy);

}  // namespace
}  // namespace ipu::kernels
