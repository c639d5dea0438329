// Kernels "pad" and "slice_scatter": a region of the result comes from one operand, the rest from a value or
// another operand. Lanes are ranges of the first dimension longer than one. And "iota", which reads nothing.
#include <algorithm>
#include <array>

#include "kernels/data_movement/element_value.h"
#include "kernels/data_movement/strided_copy.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

// Rows of the result along its leading dimension; row r of [start, start + size*step) in steps holds a piece
// of the region, copied by `piece`.
struct RowRegion {
  int64_t rows = 1, row_elements = 1;
  int64_t start = 0, size = 1, step = 1;
  StridedCopy piece;
  int64_t from_row = 0;   // elements between the region's rows in its operand
  int64_t to_offset = 0;  // of the piece within a row
  int64_t element_bytes = 4;

  bool holds(int64_t row) const {
    return row >= start && (row - start) % step == 0 && (row - start) / step < size;
  }
  void copy(StopMeter& meter, const std::byte* region, std::byte* to_row, int64_t row) const {
    copy_units(meter, piece, region + (row - start) / step * from_row * element_bytes,
               to_row + to_offset * element_bytes);
  }
};

RowRegion row_region(const TensorSpec& region, const Shape& result, const std::vector<int64_t>& starts,
                     const std::vector<int64_t>& steps) {
  RowRegion out;
  out.element_bytes = size_in_bytes(region.dtype);
  const Strides to = contiguous_strides(result), from = memory_strides(region);
  size_t lead = 0;
  while (lead + 1 < result.size() && result[lead] == 1) ++lead;
  bool has_row = !result.empty();
  if (has_row) {
    out.rows = result[lead];
    out.start = starts[lead];
    out.step = steps[lead];
    out.size = region.shape[lead];
    out.from_row = from[lead];
  }
  // Dimensions before `lead` have extent 1 in the result; an empty region has no elements there.
  for (size_t d = 0; d < lead; ++d) out.size *= region.shape[d];
  size_t first = has_row ? lead + 1 : 0;
  Shape extents;
  Strides source, target;
  for (size_t d = first; d < result.size(); ++d) {
    out.row_elements *= result[d];
    out.to_offset += starts[d] * to[d];
    extents.push_back(region.shape[d]);
    source.push_back(from[d]);
    target.push_back(to[d] * steps[d]);
  }
  out.piece = StridedCopy(extents, source, target, out.element_bytes);
  if (out.piece.elements() == 0) out.size = 0;
  return out;
}

// That the region lies in the result. Starts and steps have one number per dimension.
void require_region(const TensorSpec& region, const Shape& result, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& steps) {
  require(
      region.shape.size() == result.size() && starts.size() == result.size() && steps.size() == result.size(),
      "has a region of another rank than its result");
  const Strides to = contiguous_strides(result);
  for (size_t d = 0; d < result.size(); ++d) {
    require(starts[d] >= 0 && starts[d] <= result[d] && steps[d] >= 1 &&
                Checked(to[d]) * steps[d] <= kMostElements,
            "has a region that does not lie in its result");
    require(region.shape[d] == 0 || Checked(starts[d]) + Checked(region.shape[d] - 1) * steps[d] < result[d],
            "has a region that does not lie in its result");
  }
}

class PadKernel final : public PreparedKernel {
 public:
  PadKernel(RowRegion region, std::array<std::byte, 8> value) : region_(std::move(region)), value_(value) {
    lanes_ = static_cast<int>(std::min<int64_t>(lanes_for_elements(region_.rows * region_.row_elements),
                                                std::max<int64_t>(region_.rows, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t row_bytes = region_.row_elements * region_.element_bytes;
    const int64_t first = region_.rows * lane / lanes_, last = region_.rows * (lane + 1) / lanes_;
    StopMeter meter(call);
    in_pieces(meter, last - first, region_.row_elements + 1, [&](int64_t at, int64_t n) {
      for (int64_t row = first + at; row < first + at + n; ++row) {
        std::byte* to = call.results[0] + row * row_bytes;
        fill_elements(meter, to, region_.row_elements, value_.data(), region_.element_bytes);
        if (region_.holds(row)) region_.copy(meter, call.operands[0], to, row);
      }
    });
  }

 private:
  RowRegion region_;
  std::array<std::byte, 8> value_;
  int lanes_ = 1;
};

class SliceScatterKernel final : public PreparedKernel {
 public:
  SliceScatterKernel(RowRegion region, StridedCopy row, int64_t from_row)
      : region_(std::move(region)), row_(std::move(row)), from_row_(from_row) {
    lanes_ = static_cast<int>(std::min<int64_t>(lanes_for_elements(region_.rows * region_.row_elements),
                                                std::max<int64_t>(region_.rows, 1)));
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t row_bytes = region_.row_elements * region_.element_bytes;
    StopMeter meter(call);
    const bool in_place = call.operands[0] == call.results[0];
    const int64_t first = region_.rows * lane / lanes_, last = region_.rows * (lane + 1) / lanes_;
    in_pieces(meter, last - first, region_.row_elements + 1, [&](int64_t at, int64_t n) {
      for (int64_t row = first + at; row < first + at + n; ++row) {
        std::byte* to = call.results[0] + row * row_bytes;
        if (!in_place)
          copy_units(meter, row_, call.operands[0] + row * from_row_ * region_.element_bytes, to);
        if (region_.holds(row)) region_.copy(meter, call.operands[1], to, row);
      }
    });
  }

 private:
  RowRegion region_;
  StridedCopy row_;
  int64_t from_row_;
  int lanes_ = 1;
};

bool can_pad(const TensorSpec& x, const TensorSpec& y) {
  return x.layout.is_plain() && y.is_contiguous() && x.dtype == y.dtype;
}

std::unique_ptr<PreparedKernel> prepare_pad(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!can_pad(x, y)) return nullptr;
  auto value = element_value(y.dtype, request.attributes.real("value", 0.0));
  if (!value) return nullptr;
  return std::make_unique<PadKernel>(
      row_region(x, y.shape, request.attributes.integers("low"), std::vector<int64_t>(y.shape.size(), 1)),
      *value);
}

Footprint footprint_of_pad(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_pad(x, y), "pads types or layouts that do not fit");
  real_of(request, "value", 0.0);
  require_region(x, y.shape, integers_of(request, "low"), std::vector<int64_t>(y.shape.size(), 1));
  return footprint_of_views(request);
}

bool can_slice_scatter(const TensorSpec& x, const TensorSpec& source, const TensorSpec& y) {
  return x.layout.is_plain() && source.layout.is_plain() && y.is_contiguous() && x.dtype == y.dtype &&
         source.dtype == y.dtype && x.shape == y.shape;
}

std::unique_ptr<PreparedKernel> prepare_slice_scatter(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &source = request.operands[1], &y = request.results[0];
  if (!can_slice_scatter(x, source, y)) return nullptr;
  RowRegion region = row_region(source, y.shape, request.attributes.integers("starts"),
                                request.attributes.integers("steps"));
  // The rest of a row, all of x's.
  size_t lead = 0;
  while (lead + 1 < y.shape.size() && y.shape[lead] == 1) ++lead;
  const size_t first = y.shape.empty() ? 0 : lead + 1;
  const auto tail = static_cast<std::ptrdiff_t>(first);
  const Strides to = contiguous_strides(y.shape);
  StridedCopy row(Shape(y.shape.begin() + tail, y.shape.end()),
                  Strides(x.strides.begin() + tail, x.strides.end()), Strides(to.begin() + tail, to.end()),
                  size_in_bytes(x.dtype));
  return std::make_unique<SliceScatterKernel>(std::move(region), std::move(row),
                                              y.shape.empty() ? 0 : x.strides[lead]);
}

Footprint footprint_of_slice_scatter(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &source = request.operands[1], &y = request.results[0];
  require(can_slice_scatter(x, source, y), "replaces elements of types, shapes or layouts that do not fit");
  require_region(source, y.shape, integers_of(request, "starts"), integers_of(request, "steps"));
  return footprint_of_views(request);
}

class IotaKernel final : public PreparedKernel {
 public:
  IotaKernel(DType dtype, int64_t outer, int64_t size, int64_t inner, double start, double step)
      : dtype_(dtype), outer_(outer), size_(size), inner_(inner), start_(start), step_(step) {}
  void run(const KernelCall& call, int) const override {
    const int64_t bytes = size_in_bytes(dtype_);
    std::byte* to = call.results[0];
    StopMeter meter(call);
    for (int64_t o = 0; o < outer_; ++o) {
      const bool goes_on = in_pieces(meter, size_, inner_ + 1, [&](int64_t at, int64_t n) {
        for (int64_t i = at; i < at + n; ++i) {
          auto value = *element_value(dtype_, start_ + step_ * static_cast<double>(i));
          fill_elements(meter, to, inner_, value.data(), bytes);
          to += inner_ * bytes;
        }
      });
      if (!goes_on) return;
    }
  }

 private:
  DType dtype_;
  int64_t outer_, size_, inner_;
  double start_, step_;
};

std::unique_ptr<PreparedKernel> prepare_iota(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  if (!y.is_contiguous() || !element_value(y.dtype, 0.0)) return nullptr;
  const int64_t dim = request.attributes.integer("dim", 0);
  int64_t outer = 1, size = 1, inner = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(y.shape.size()); ++d)
    (d < dim ? outer : d == dim ? size : inner) *= y.shape[d];
  return std::make_unique<IotaKernel>(y.dtype, outer, size, inner, request.attributes.real("start", 0.0),
                                      request.attributes.real("step", 1.0));
}

Footprint footprint_of_iota(const KernelRequest& request) {
  require_counts(request, 0, 1);
  require_sound(request);
  const TensorSpec& y = request.results[0];
  require(y.is_contiguous() && element_value(y.dtype, 0.0), "fills a type or layout it cannot");
  const int64_t dim = integer_of(request, "dim", 0);
  require(dim >= 0 && dim < std::max(std::ssize(y.shape), std::ptrdiff_t{1}),
          "counts along a dimension that does not exist");
  real_of(request, "start", 0.0);
  real_of(request, "step", 1.0);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("pad", prepare_pad, footprint_of_pad);
IPU_REGISTER_KERNEL("slice_scatter", prepare_slice_scatter, footprint_of_slice_scatter);
IPU_REGISTER_KERNEL("iota", prepare_iota, footprint_of_iota);

}  // namespace
}  // namespace ipu::kernels
