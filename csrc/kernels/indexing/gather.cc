// Kernels "gather" (x, index), "scatter_add" and "scatter" (x, index, src) {dim, mode}: one element of x per
// index. Equal indices come one after the other in row-major order. Lanes are ranges of the first dimension
// that is not `dim`.
#include <algorithm>
#include <optional>
#include <string>

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
  void each(StopMeter& meter, int64_t first, int64_t last, Visit visit) const {
    if (element_count(shape) > 0) step(meter, 0, 0, 0, first, last, visit);
  }

 private:
  template <class Visit>
  bool step(StopMeter& meter, size_t d, int64_t linear, int64_t offset, int64_t first, int64_t last,
            Visit& visit) const {
    const bool is_cut = static_cast<int>(d) == cut;
    const int64_t begin = is_cut ? std::min(first, shape[d]) : 0,
                  end = is_cut ? std::min(last, shape[d]) : shape[d];
    if (d + 1 == shape.size()) {
      for (int64_t i = begin; i < end;) {
        const int64_t piece = std::min(end, i + StopMeter::kPiece / kIndexedCost);
        if (meter.stops((piece - i) * kIndexedCost)) return false;
        for (; i < piece; ++i) visit(linear * shape[d] + i, offset + i * x_strides[d]);
      }
      return true;
    }
    for (int64_t i = begin; i < end; ++i)
      if (!step(meter, d + 1, linear * shape[d] + i, offset + i * x_strides[d], first, last, visit))
        return false;
    return true;
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
    StopMeter meter(call);
    with_bits(dtype_, [&]<class T>(T) {
      const IndexOperand index = index_operand(call, 1, walk_.extent);
      const auto* x = reinterpret_cast<const T*>(call.operands[0]);
      auto* result = reinterpret_cast<T*>(call.results[0]);
      walk_.each(meter, extent_ * lane / lanes_, extent_ * (lane + 1) / lanes_,
                 [&](int64_t linear, int64_t offset) {
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

// What becomes of an element of x and one of src.
enum class Combine : uint8_t { kAdd, kAssign, kMultiply, kMax, kMin };

std::optional<Combine> combine_from_word(const std::string& word) {
  if (word == "assign") return Combine::kAssign;
  if (word == "multiply") return Combine::kMultiply;
  if (word == "max") return Combine::kMax;
  if (word == "min") return Combine::kMin;
  return std::nullopt;
}

// Calls f(T{}) with the type in which elements are combined; false when there is none.
template <class F>
bool with_combined(Combine combine, DType dtype, F f) {
  if (combine == Combine::kAssign) {
    with_bits(dtype, f);
    return true;
  }
  if (combine == Combine::kAdd || combine == Combine::kMultiply) return with_number(dtype, f);
  switch (dtype) {  // an order needs the sign
    case DType::kI32:
      f(int32_t{});
      return true;
    case DType::kI16:
      f(int16_t{});
      return true;
    case DType::kI8:
      f(int8_t{});
      return true;
    default:
      return with_number(dtype, f);
  }
}

// NaN wins over every number.
template <class T>
T extreme(T a, T b, bool largest) {
  if (a != a) return a;
  if (b != b) return b;
  return (largest ? b > a : b < a) ? b : a;
}

class ScatterKernel final : public PreparedKernel {
 public:
  ScatterKernel(DType dtype, Combine combine, Walk walk, int64_t extent, StridedCopy slice,
                int64_t from_stride, int64_t to_stride)
      : dtype_(dtype),
        combine_(combine),
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
    StopMeter meter(call);
    if (call.operands[0] != call.results[0]) {
      const bool copied = in_pieces(meter, last - first, slice_.elements() + 1, [&](int64_t at, int64_t n) {
        for (int64_t i = first + at; i < first + at + n; ++i)
          copy_units(meter, slice_, call.operands[0] + i * from_stride_ * bytes,
                     call.results[0] + i * to_stride_ * bytes);
      });
      if (!copied || meter.stops(1)) return;
    }
    with_combined(combine_, dtype_, [&]<class T>(T) {
      switch (combine_) {
        case Combine::kAdd:
          return each<T>(call, meter, first, last, [](T a, T b) { return static_cast<T>(a + b); });
        case Combine::kMultiply:
          return each<T>(call, meter, first, last, [](T a, T b) { return product(a, b); });
        case Combine::kMax:
          return each<T>(call, meter, first, last, [](T a, T b) { return extreme(a, b, true); });
        case Combine::kMin:
          return each<T>(call, meter, first, last, [](T a, T b) { return extreme(a, b, false); });
        case Combine::kAssign:
          return each<T>(call, meter, first, last, [](T, T b) { return b; });
      }
    });
  }

 private:
  // Small unsigned types widen to int, which must not overflow.
  template <class T>
  static T product(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return static_cast<T>(a * b);
  }
  template <class T, class Apply>
  void each(const KernelCall& call, StopMeter& meter, int64_t first, int64_t last, Apply apply) const {
    const IndexOperand index = index_operand(call, 1, walk_.extent);
    const auto* source = reinterpret_cast<const T*>(call.operands[2]);
    auto* result = reinterpret_cast<T*>(call.results[0]);
    walk_.each(meter, first, last, [&](int64_t linear, int64_t offset) {
      const int64_t k = index.at(linear);
      if (k < 0) return;
      T& to = result[offset + k * walk_.along];
      to = apply(to, source[linear]);
    });
  }

  DType dtype_;
  Combine combine_;
  Walk walk_;
  StridedCopy slice_;  // x at one position of the cut dimension
  int64_t extent_, from_stride_, to_stride_;
  int lanes_ = 1;
};

bool can_gather(const TensorSpec& x, const TensorSpec& index, const TensorSpec& y) {
  return !x.layout.is_blocked() && is_index(index) && y.is_contiguous() && x.dtype == y.dtype &&
         !x.shape.empty() && x.shape.size() == index.shape.size();
}

// Places of x are named by an index along `dim` and by the place in the index elsewhere.
void require_gatherable(const KernelRequest& request, const Shape& x, const Shape& index) {
  const int64_t dim = dimension_of(request, "dim", x.size());
  for (size_t d = 0; d < x.size(); ++d)
    require(static_cast<int64_t>(d) == dim || index[d] <= x[d], "has an index longer than what it indexes");
}

std::unique_ptr<PreparedKernel> prepare_gather(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  if (!can_gather(x, index, y)) return nullptr;
  return std::make_unique<GatherKernel>(
      y.dtype, make_walk(x, index.shape, request.attributes.integer("dim"), memory_strides(x)));
}

Footprint footprint_of_gather(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
  require(can_gather(x, index, y), "gathers from types, ranks or layouts that do not fit");
  require_gatherable(request, x.shape, index.shape);
  require(element_count(index.shape) == element_count(y.shape),
          "gathers elements that do not fill its result");
  return footprint_of_views(request);
}

bool can_combine(const KernelRequest& request, Combine combine) {
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &source = request.operands[2],
                   &y = request.results[0];
  return x.layout.is_plain() && is_index(index) && source.is_contiguous() && y.is_contiguous() &&
         x.dtype == y.dtype && source.dtype == y.dtype && x.shape == y.shape && !x.shape.empty() &&
         x.shape.size() == index.shape.size() && with_combined(combine, y.dtype, [](auto) {});
}

std::unique_ptr<PreparedKernel> prepare_combined(const KernelRequest& request, Combine combine) {
  if (!can_combine(request, combine)) return nullptr;
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &y = request.results[0];
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
  return std::make_unique<ScatterKernel>(y.dtype, combine, std::move(walk), extent, std::move(slice),
                                         from_stride, to_stride);
}
std::unique_ptr<PreparedKernel> prepare_scatter_add(const KernelRequest& request) {
  return prepare_combined(request, Combine::kAdd);
}
std::unique_ptr<PreparedKernel> prepare_scatter(const KernelRequest& request) {
  const std::optional<Combine> combine = combine_from_word(request.attributes.text("mode", "assign"));
  return combine ? prepare_combined(request, *combine) : nullptr;
}

Footprint footprint_of_combined(const KernelRequest& request, Combine combine) {
  require_counts(request, 3, 1);
  require_sound(request);
  require(can_combine(request, combine), "scatters types, shapes or layouts that do not fit");
  const TensorSpec &x = request.operands[0], &index = request.operands[1], &source = request.operands[2];
  require_gatherable(request, x.shape, index.shape);
  require(element_count(index.shape) == element_count(source.shape),
          "scatters elements that are not one per index");
  return footprint_of_views(request);
}
Footprint footprint_of_scatter_add(const KernelRequest& request) {
  return footprint_of_combined(request, Combine::kAdd);
}
Footprint footprint_of_scatter(const KernelRequest& request) {
  const std::optional<Combine> combine = combine_from_word(text_of(request, "mode", "assign"));
  require(combine.has_value(), "scatters in a mode that does not exist");
  return footprint_of_combined(request, *combine);
}

IPU_REGISTER_KERNEL("gather", prepare_gather, footprint_of_gather);
IPU_REGISTER_KERNEL("scatter_add", prepare_scatter_add, footprint_of_scatter_add);
IPU_REGISTER_KERNEL("scatter", prepare_scatter, footprint_of_scatter);

}  // namespace
}  // namespace ipu::kernels
