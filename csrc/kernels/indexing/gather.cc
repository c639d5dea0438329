// Kernels "gather" (x, index) and "scatter_add" (x, index, src) {dim}: one element of x per index. Equal
// indices add up in row-major order. Lanes are ranges of the first dimension that is not `dim`.
#include <algorithm>

#include "kernels/data_movement/strided_copy.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

// Walk over the index tensor: coordinates restricted in the cut dimension, x offset with dimension `dim` left
// out.
struct Walk {
  Shape shape;        // of the index
  Strides x_strides;  // 0 along `dim`
  int64_t along = 1;  // x stride of `dim`
  int64_t extent = 0;
  int cut = -1;  // dimension lanes cut; -1: one lane

  // visit(linear position in the index, element of x without the index's part), in row-major order.
  template <class Visit>
  void each(int64_t first, int64_t last, Visit visit) const {
    step(0, 0, 0, first, last, visit);
  }

 private:
  template <class Visit>
  void step(size_t d, int64_t linear, int64_t offset, int64_t first, int64_t last, Visit& visit) const {
    if (d == shape.size()) return visit(linear, offset);
    const bool is_cut = static_cast<int>(d) == cut;
    const int64_t begin = is_cut ? std::min(first, shape[d]) : 0,
                  end = is_cut ? std::min(last, shape[d]) : shape[d];
    for (int64_t i = begin; i < end; ++i) {
      if (d + 1 == shape.size())
        visit(linear * shape[d] + i, offset + i * x_strides[d]);
      else
        step(d + 1, linear * shape[d] + i, offset + i * x_strides[d], first, last, visit);
    }
  }
};

Walk make_walk(const TensorSpec& x, const Shape& index, int64_t dim, const Strides& strides) {
  Walk walk{.shape = index, .x_strides = strides};
  walk.along = strides[static_cast<size_t>(dim)];
  walk.x_strides[static_cast<size_t>(dim)] = 0;
  walk.extent = x.shape[static_cast<size_t>(dim)];
  for (size_t d = 0; d < index.size() && walk.cut < 0; ++d)
    if (static_cast<int64_t>(d) != dim && x.shape[d] > 1) walk.cut = static_cast<int>(d);
  return walk;
}

class GatherKernel final : public PreparedKernel {
 public:
  GatherKernel(DType dtype, Walk walk) : dtype_(dtype), walk_(std::move(walk)) {
    extent_ = walk_.cut < 0 ? 1 : walk_.shape[static_cast<size_t>(walk_.cut)];
    lanes_ = static_cast<int>(std::clamp<int64_t>(lanes_for_elements(element_count(walk_.shape)), 1,
                                                  std::max<int64_t>(extent_, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    with_bits(dtype_, [&]<class T>(T) {
      const IndexOperand index = index_operand(call, 1, walk_.extent);
      const auto* x = reinterpret_cast<const T*>(call.operands[0]);
      auto* result = reinterpret_cast<T*>(call.results[0]);
      walk_.each(extent_ * lane / lanes_, extent_ * (lane + 1) / lanes_, [&](int64_t linear, int64_t offset) {
        const int64_t k = index.at(linear);
        result[linear] = k >= 0 ? x[offset + k * walk_.along] : T{};
      });
    });
  }

 private:
  DType dtype_;
  Walk walk_;
  int64_t extent_;
  int lanes_ = 1;
};

class ScatterAddKernel final : public PreparedKernel {
 public:
  ScatterAddKernel(DType dtype, Walk walk, int64_t extent, StridedCopy slice, int64_t from_stride,
                   int64_t to_stride)
      : dtype_(dtype),
        walk_(std::move(walk)),
        slice_(std::move(slice)),
        extent_(extent),
        from_stride_(from_stride),
        to_stride_(to_stride) {
    const int64_t work = slice_.elements() * extent_ + 2 * element_count(walk_.shape);
    lanes_ =
        static_cast<int>(std::clamp<int64_t>(lanes_for_elements(work), 1, std::max<int64_t>(extent_, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t first = extent_ * lane / lanes_, last = extent_ * (lane + 1) / lanes_;
    const int64_t bytes = size_in_bytes(dtype_);
    if (call.operands[0] != call.results[0])
      for (int64_t i = first; i < last; ++i)
        slice_.run(call.operands[0] + i * from_stride_ * bytes, call.results[0] + i * to_stride_ * bytes);
    with_number(dtype_, [&]<class T>(T) {
      const IndexOperand index = index_operand(call, 1, walk_.extent);
      const auto* source = reinterpret_cast<const T*>(call.operands[2]);
      auto* result = reinterpret_cast<T*>(call.results[0]);
      walk_.each(first, last, [&](int64_t linear, int64_t offset) {
        const int64_t k = index.at(linear);
        if (k < 0) return;
        T& to = result[offset + k * walk_.along];
        to = static_cast<T>(to + source[linear]);
      });
    });
  }

 private:
  DType dtype_;
  Walk walk_;
  StridedCopy slice_;  // x at one position of the cut dimension
  int64_t extent_, from_stride_, to_stride_;
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> prepare_gather(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (x.layout == Layout::kPacked64 || !is_index(index) || !y.is_contiguous() || x.dtype != y.dtype)
    return nullptr;
  if (x.shape.empty() || x.shape.size() != index.shape.size()) return nullptr;
  return std::make_unique<GatherKernel>(
      y.dtype, make_walk(x, index.shape, request.attributes.integer("dim"), memory_strides(x)));
}

std::unique_ptr<PreparedKernel> prepare_scatter_add(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &source = request.operands[2],
                   &y = request.results[0];
  if (x.layout != Layout::kPlain || !is_index(index) || !source.is_contiguous() || !y.is_contiguous())
    return nullptr;
  if (x.dtype != y.dtype || source.dtype != y.dtype || x.shape != y.shape ||
      !with_number(y.dtype, [](auto) {}))
    return nullptr;
  if (x.shape.empty() || x.shape.size() != index.shape.size()) return nullptr;
  Walk walk = make_walk(y, index.shape, request.attributes.integer("dim"), contiguous_strides(y.shape));
  Shape extents = x.shape;
  Strides from = x.strides, to = contiguous_strides(y.shape);
  int64_t extent = 1, from_stride = 0, to_stride = 0;
  if (walk.cut >= 0) {
    const auto d = static_cast<size_t>(walk.cut);
    extent = extents[d], from_stride = from[d], to_stride = to[d];
    extents[d] = 1;
  }
  StridedCopy slice(extents, from, to, size_in_bytes(y.dtype));
  return std::make_unique<ScatterAddKernel>(y.dtype, std::move(walk), extent, std::move(slice), from_stride,
                                            to_stride);
}

IPU_REGISTER_KERNEL("gather", prepare_gather);
IPU_REGISTER_KERNEL("scatter_add", prepare_scatter_add);

}  // namespace
}  // namespace ipu::kernels
