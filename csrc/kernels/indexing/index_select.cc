// Kernels "index_select" (x, index [n]) and "index_add" (x, index [n], src) {dim}, and "one_hot" (index)
// {classes}: whole slices by number. Equal numbers add up in order.
#include <algorithm>
#include <cstring>

#include "kernels/data_movement/element_value.h"
#include "kernels/data_movement/strided_copy.h"
#include "kernels/indexing/index_operand.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

// A contiguous tensor as [outer][size][inner] around `dim`.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Shape& shape, int64_t dim) {
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
      (d < dim ? outer : d == dim ? size : inner) *= shape[d];
  }
};

class IndexSelectKernel final : public PreparedKernel {
 public:
  IndexSelectKernel(Around x, int64_t count, int64_t element_bytes)
      : x_(x), count_(count), run_bytes_(x.inner * element_bytes) {
    const int64_t runs = x.outer * count;
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes_for_elements(runs * x.inner), 1, std::max<int64_t>(runs, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, x_.size);
    const int64_t runs = x_.outer * count_;
    for (int64_t i = runs * lane / lanes_; i < runs * (lane + 1) / lanes_; ++i) {
      std::byte* to = call.results[0] + i * run_bytes_;
      const int64_t k = index.at(i % count_);
      if (k >= 0)
        std::memcpy(to, call.operands[0] + (i / count_ * x_.size + k) * run_bytes_,
                    static_cast<size_t>(run_bytes_));
      else
        std::memset(to, 0, static_cast<size_t>(run_bytes_));
    }
  }

 private:
  Around x_;
  int64_t count_, run_bytes_;
  int lanes_ = 1;
};

// Lanes take outer positions, or columns of the slices when there are few of those.
class IndexAddKernel final : public PreparedKernel {
 public:
  IndexAddKernel(DType dtype, Around x, int64_t count, StridedCopy copy, int64_t outer_stride, bool strided)
      : dtype_(dtype),
        x_(x),
        count_(count),
        copy_(std::move(copy)),
        outer_stride_(outer_stride),
        strided_(strided) {
    const int64_t wanted = lanes_for_elements(x.outer * (x.size + count) * x.inner);
    by_columns_ = x.outer < wanted && !strided && x.inner >= 64 * wanted;
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(wanted, 1, std::max<int64_t>(by_columns_ ? x.inner / 64 : x.outer, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    with_number(dtype_, [&]<class T>(T) { add<T>(call, lane); });
  }

 private:
  template <class T>
  void add(const KernelCall& call, int lane) const {
    const IndexOperand index = index_operand(call, 1, x_.size);
    const int64_t extent = by_columns_ ? x_.inner : x_.outer;
    const int64_t first = extent * lane / lanes_, last = extent * (lane + 1) / lanes_;
    const int64_t column = by_columns_ ? first : 0, columns = by_columns_ ? last - first : x_.inner;
    auto* result = reinterpret_cast<T*>(call.results[0]);
    const auto* x = reinterpret_cast<const T*>(call.operands[0]);
    const auto* source = reinterpret_cast<const T*>(call.operands[2]);
    for (int64_t o = by_columns_ ? 0 : first; o < (by_columns_ ? x_.outer : last); ++o) {
      T* to = result + o * x_.size * x_.inner;
      if (static_cast<const void*>(x) != result) {
        if (strided_)
          copy_.run(reinterpret_cast<const std::byte*>(x + o * outer_stride_),
                    reinterpret_cast<std::byte*>(to));
        else
          for (int64_t r = 0; r < x_.size; ++r)
            std::copy_n(x + (o * x_.size + r) * x_.inner + column, columns, to + r * x_.inner + column);
      }
      for (int64_t i = 0; i < count_; ++i) {
        const int64_t k = index.at(i);
        if (k < 0) continue;
        T* slice = to + k * x_.inner + column;
        const T* from = source + (o * count_ + i) * x_.inner + column;
        for (int64_t c = 0; c < columns; ++c) slice[c] = static_cast<T>(slice[c] + from[c]);
      }
    }
  }

  DType dtype_;
  Around x_;
  int64_t count_;
  StridedCopy copy_;  // one outer position of x, when x is a strided or broadcast view
  int64_t outer_stride_;
  bool strided_, by_columns_ = false;
  int lanes_ = 1;
};

class OneHotKernel final : public PreparedKernel {
 public:
  OneHotKernel(DType dtype, int64_t count, int64_t classes)
      : dtype_(dtype), count_(count), classes_(classes), one_(*element_value(dtype, 1.0)) {
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes_for_elements(count * classes), 1, std::max<int64_t>(count, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 0, classes_);
    const int64_t bytes = size_in_bytes(dtype_);
    const int64_t first = count_ * lane / lanes_, last = count_ * (lane + 1) / lanes_;
    std::memset(call.results[0] + first * classes_ * bytes, 0,
                static_cast<size_t>((last - first) * classes_ * bytes));
    for (int64_t i = first; i < last; ++i)
      if (const int64_t k = index.at(i); k >= 0)
        std::memcpy(call.results[0] + (i * classes_ + k) * bytes, one_.data(), static_cast<size_t>(bytes));
  }

 private:
  DType dtype_;
  int64_t count_, classes_;
  std::array<std::byte, 8> one_;
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> prepare_index_select(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!x.is_contiguous() || !is_index(index) || !y.is_contiguous() || x.dtype != y.dtype) return nullptr;
  return std::make_unique<IndexSelectKernel>(Around(x.shape, request.attributes.integer("dim")),
                                             element_count(index.shape), size_in_bytes(x.dtype));
}

std::unique_ptr<PreparedKernel> prepare_index_add(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &source = request.operands[2],
                   &y = request.results[0];
  if (x.layout != Layout::kPlain || !is_index(index) || !source.is_contiguous() || !y.is_contiguous())
    return nullptr;
  if (x.dtype != y.dtype || source.dtype != y.dtype || x.shape != y.shape ||
      !with_number(y.dtype, [](auto) {}))
    return nullptr;
  const auto dim = request.attributes.integer("dim");
  Around around(x.shape, dim);
  StridedCopy copy;
  int64_t outer_stride = 0;
  bool strided = !x.is_contiguous();
  if (strided) {
    // The dimensions before `dim` must be one run of equal steps (broadcast constants are).
    Shape extents(x.shape.begin(), x.shape.begin() + dim);
    Strides strides(x.strides.begin(), x.strides.begin() + dim);
    CollapsedDims outer = collapse(extents, {strides});
    if (outer.extents.size() > 1) return nullptr;
    outer_stride = outer.extents.empty() ? 0 : outer.strides[0][0];
    Shape rest(x.shape.begin() + dim, x.shape.end());
    copy = StridedCopy(rest, Strides(x.strides.begin() + dim, x.strides.end()), contiguous_strides(rest),
                       size_in_bytes(x.dtype));
  }
  return std::make_unique<IndexAddKernel>(y.dtype, around, element_count(index.shape), std::move(copy),
                                          outer_stride, strided);
}

std::unique_ptr<PreparedKernel> prepare_one_hot(const KernelRequest& request) {
  const TensorSpec &index = request.operands[0], &y = request.results[0];
  if (!is_index(index) || !y.is_contiguous() || !element_value(y.dtype, 1.0)) return nullptr;
  return std::make_unique<OneHotKernel>(y.dtype, element_count(index.shape),
                                        request.attributes.integer("classes"));
}

IPU_REGISTER_KERNEL("index_select", prepare_index_select);
IPU_REGISTER_KERNEL("index_add", prepare_index_add);
IPU_REGISTER_KERNEL("one_hot", prepare_one_hot);

}  // namespace
}  // namespace ipu::kernels
