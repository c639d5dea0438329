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

// A contiguous tensor as [outer][size][inner] around `dim`, in the order of its memory.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const TensorSpec& x, int64_t dim) {
    int64_t* place = &outer;
    for (const int d : x.layout.order(x.shape.size())) {
      if (d == dim) {
        size = x.shape[d];
        place = &inner;
      } else {
        *place *= x.shape[d];
      }
    }
  }
};

class IndexSelectKernel final : public PreparedKernel {
 public:
  IndexSelectKernel(Around x, int64_t count, DType dtype)
      : dtype_(dtype), x_(x), count_(count), run_bytes_(x.inner * size_in_bytes(dtype)) {
    const int64_t runs = x.outer * count;
    lanes_ = static_cast<int>(
        std::clamp<int64_t>(lanes_for_elements(runs * x.inner), 1, std::max<int64_t>(runs, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const IndexOperand index = index_operand(call, 1, x_.size);
    StopMeter meter(call);
    const int64_t runs = x_.outer * count_;
    const int64_t first = runs * lane / lanes_, last = runs * (lane + 1) / lanes_;
    if (x_.inner == 1) {
      in_pieces(meter, last - first, kIndexedCost, [&](int64_t at, int64_t n) {
        with_bits(dtype_, [&]<class T>(T) { select_elements<T>(call, index, first + at, n); });
      });
      return;
    }
    in_pieces(meter, last - first, run_bytes_ / 4 + kIndexedCost, [&](int64_t at, int64_t n) {
      for (int64_t i = first + at; i < first + at + n; ++i) {
        std::byte* to = call.results[0] + i * run_bytes_;
        const int64_t k = index.at(i % count_);
        if (k >= 0)
          copy_bytes(meter, to, call.operands[0] + (i / count_ * x_.size + k) * run_bytes_, run_bytes_);
        else
          clear_bytes(meter, to, run_bytes_);
      }
    });
  }

 private:
  // Slices of one element, [first, first + n) of the result: copies of a known size, and no division for each.
  template <class T>
  void select_elements(const KernelCall& call, const IndexOperand& index, int64_t first, int64_t n) const {
    T* to = reinterpret_cast<T*>(call.results[0]) + first;
    const T* from = reinterpret_cast<const T*>(call.operands[0]) + first / count_ * x_.size;
    for (int64_t k = first % count_; n > 0; k = 0, from += x_.size) {
      const int64_t end = std::min(count_, k + n);
      n -= end - k;
      for (; k < end; ++k) {
        const int64_t place = index.at(k);
        *to++ = place >= 0 ? from[place] : T{0};
      }
    }
  }

  DType dtype_;
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
    StopMeter meter(call);
    for (int64_t o = by_columns_ ? 0 : first; o < (by_columns_ ? x_.outer : last); ++o) {
      T* to = result + o * x_.size * x_.inner;
      if (static_cast<const void*>(x) != result) {
        if (strided_) {
          copy_units(meter, copy_, reinterpret_cast<const std::byte*>(x + o * outer_stride_),
                     reinterpret_cast<std::byte*>(to));
        } else {
          in_pieces(meter, x_.size, columns + 1, [&](int64_t at, int64_t n) {
            for (int64_t r = at; r < at + n; ++r)
              copy_bytes(meter, reinterpret_cast<std::byte*>(to + r * x_.inner + column),
                         reinterpret_cast<const std::byte*>(x + (o * x_.size + r) * x_.inner + column),
                         columns * static_cast<int64_t>(sizeof(T)));
          });
        }
        if (meter.stops(1)) return;
      }
      // Rows longer than a piece are cut into columns of one.
      int64_t c0 = 0;
      do {  // once for rows of nothing too: their indices are checked
        const int64_t width = std::min(StopMeter::kPiece, columns - c0);
        const T* from = source + o * count_ * x_.inner + column + c0;
        T* slices = to + column + c0;
        const bool done = in_pieces(meter, count_, width + 1, [&](int64_t at, int64_t n) {
          for (int64_t i = at; i < at + n; ++i)
            if (const int64_t k = index.at(i); k >= 0)
              add_slice(slices + k * x_.inner, from + i * x_.inner, width);
        });
        if (!done) return;
        c0 += StopMeter::kPiece;
      } while (c0 < columns);
    }
  }

  template <class T>
  static void add_slice(T* slice, const T* from, int64_t width) {
    if (width == 1) {
      *slice = static_cast<T>(*slice + *from);
      return;
    }
    for (int64_t c = 0; c < width; ++c) slice[c] = static_cast<T>(slice[c] + from[c]);
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
    StopMeter meter(call);
    clear_bytes(meter, call.results[0] + first * classes_ * bytes, (last - first) * classes_ * bytes);
    in_pieces(meter, last - first, kIndexedCost, [&](int64_t at, int64_t n) {
      for (int64_t i = first + at; i < first + at + n; ++i)
        if (const int64_t k = index.at(i); k >= 0)
          std::memcpy(call.results[0] + (i * classes_ + k) * bytes, one_.data(), static_cast<size_t>(bytes));
    });
  }

 private:
  DType dtype_;
  int64_t count_, classes_;
  std::array<std::byte, 8> one_;
  int lanes_ = 1;
};

bool can_select(const TensorSpec& x, const TensorSpec& index, const TensorSpec& y) {
  const bool in_order = x.layout.is_channels_last() ? y.layout == x.layout && x.shape.size() == y.shape.size()
                                                    : x.is_contiguous() && y.is_contiguous();
  return in_order && is_index(index) && x.dtype == y.dtype;
}

std::unique_ptr<PreparedKernel> prepare_index_select(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!can_select(x, index, y)) return nullptr;
  return std::make_unique<IndexSelectKernel>(Around(x, request.attributes.integer("dim")),
                                             element_count(index.shape), x.dtype);
}

// Slices of [outer][size][inner], one per index.
bool are_slices(const KernelRequest& request, const TensorSpec& x, const TensorSpec& slices) {
  const Around around(x, dimension_of(request, "dim", x.shape.size()));
  return Checked(around.outer) * element_count(request.operands[1].shape) * around.inner ==
         element_count(slices.shape);
}

Footprint footprint_of_index_select(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_select(x, request.operands[1], y), "selects slices of types or layouts that do not fit");
  require(are_slices(request, x, y), "selects slices that do not fill its result");
  return footprint_of_views(request);
}

bool can_add(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &source = request.operands[2], &y = request.results[0];
  return x.layout.is_plain() && is_index(request.operands[1]) && source.is_contiguous() &&
         y.is_contiguous() && x.dtype == y.dtype && source.dtype == y.dtype && x.shape == y.shape &&
         with_number(y.dtype, [](auto) {});
}

std::unique_ptr<PreparedKernel> prepare_index_add(const KernelRequest& request) {
  if (!can_add(request)) return nullptr;
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  const auto dim = request.attributes.integer("dim");
  Around around(x, dim);
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

Footprint footprint_of_index_add(const KernelRequest& request) {
  require_counts(request, 3, 1);
  require_sound(request);
  require(can_add(request), "adds slices of types, shapes or layouts that do not fit");
  require(are_slices(request, request.operands[0], request.operands[2]),
          "adds slices that are not one per index");
  return footprint_of_views(request);
}

bool can_make_one_hot(const TensorSpec& index, const TensorSpec& y) {
  return is_index(index) && y.is_contiguous() && element_value(y.dtype, 1.0);
}

std::unique_ptr<PreparedKernel> prepare_one_hot(const KernelRequest& request) {
  const TensorSpec &index = request.operands[0], &y = request.results[0];
  if (!can_make_one_hot(index, y)) return nullptr;
  return std::make_unique<OneHotKernel>(y.dtype, element_count(index.shape),
                                        request.attributes.integer("classes"));
}

Footprint footprint_of_one_hot(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  const TensorSpec &index = request.operands[0], &y = request.results[0];
  require(can_make_one_hot(index, y), "marks classes in a type or layout it cannot");
  const int64_t classes = integer_of(request, "classes");
  require(classes >= 0 && classes <= kMostElements, "has a number of classes out of range");
  require(Checked(element_count(index.shape)) * classes == element_count(y.shape),
          "marks classes of a result that has other ones");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("index_select", prepare_index_select, footprint_of_index_select);
IPU_REGISTER_KERNEL("index_add", prepare_index_add, footprint_of_index_add);
IPU_REGISTER_KERNEL("one_hot", prepare_one_hot, footprint_of_one_hot);

}  // namespace
}  // namespace ipu::kernels
