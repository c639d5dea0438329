// Kernels "copy", "flip" and "concat": every element of the result comes from one element of an operand.
// copy: the result's shape read from operand 0 through attributes `offset` and `strides` (elements of the
// contiguous operand; default: the operand's own shape broadcast to the result's). Transposes, slices and
// expands are copies.
#include <algorithm>
#include <optional>

#include "kernels/data_movement/strided_copy.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

// Copies from several operands, one after the other; lanes cut all their units evenly.
class CopyKernel final : public PreparedKernel {
 public:
  struct Piece {
    StridedCopy copy;
    size_t operand = 0;
    int64_t from_bytes = 0, to_bytes = 0;  // of the first element
    int64_t first_unit = 0;
  };

  void add(Piece piece) {
    piece.first_unit = units_;
    units_ += piece.copy.units();
    elements_ += piece.copy.elements();
    pieces_.push_back(std::move(piece));
    lanes_ = static_cast<int>(std::min<int64_t>(lanes_for_elements(elements_), std::max<int64_t>(units_, 1)));
  }

  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t first = units_ * lane / lanes_, last = units_ * (lane + 1) / lanes_;
    StopMeter meter(call);
    for (const Piece& piece : pieces_) {
      const int64_t begin = std::max(first, piece.first_unit),
                    end = std::min(last, piece.first_unit + piece.copy.units());
      if (begin >= end) continue;
      const std::byte* from = call.operands[piece.operand] + piece.from_bytes;
      std::byte* to = call.results[0] + piece.to_bytes;
      const bool goes_on =
          in_pieces(meter, end - begin, piece.copy.unit_elements(), [&](int64_t at, int64_t n) {
            const int64_t unit = begin - piece.first_unit + at;
            piece.copy.run(from, to, unit, unit + n);
          });
      if (!goes_on) return;
    }
  }

 private:
  std::vector<Piece> pieces_;
  int64_t units_ = 0, elements_ = 0;
  int lanes_ = 1;
};

// What copy and flip read: the elements of the result, in row-major order, as a walk over the operand.
struct Source {
  Shape extents;
  Strides strides;
  int64_t offset = 0;  // of the first element
};

std::unique_ptr<PreparedKernel> copy_of(const KernelRequest& request, const std::optional<Source>& source) {
  if (!source) return nullptr;
  auto kernel = std::make_unique<CopyKernel>();
  const int64_t bytes = size_in_bytes(request.results[0].dtype);
  kernel->add(
      {.copy = StridedCopy(source->extents, source->strides, contiguous_strides(source->extents), bytes),
       .from_bytes = source->offset * bytes});
  return kernel;
}

Footprint footprint_of(const KernelRequest& request, const std::optional<Source>& source) {
  require(source.has_value(), "copies between types, shapes or layouts that do not fit");
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  const Extent all = extent_of_view(from), read = extent_of_walk(source->extents, source->strides,
                                                                 source->offset, size_in_bytes(from.dtype));
  require(read.begin == read.end || (read.begin >= all.begin && read.end <= all.end),
          "reads outside its operand");
  return {{read}, {extent_of_whole(to)}};
}

// Strides of `from` over the result's shape, 0 where it repeats; empty optional when it does not broadcast.
bool broadcast_over(const TensorSpec& from, const Shape& to, Strides& strides) {
  if (from.shape.size() > to.size()) return false;
  strides.assign(to.size(), 0);
  const Strides own = memory_strides(from);
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t d = to.size() - own.size() + i;
    if (from.shape[i] != to[d] && from.shape[i] != 1) return false;
    strides[d] = from.shape[i] == 1 ? 0 : own[i];
  }
  return true;
}

std::optional<Source> source_of_copy(const KernelRequest& request) {
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype) return std::nullopt;
  if (!request.attributes.has("strides")) {
    if (from.layout == to.layout && !from.layout.is_plain()) {
      if (from.shape != to.shape) return std::nullopt;
      return Source{{from.stored_bytes() / size_in_bytes(from.dtype)}, {1}};
    }
    Strides strides;
    if (!to.is_contiguous() || from.layout.is_blocked() || !broadcast_over(from, to.shape, strides))
      return std::nullopt;
    return Source{to.shape, strides};
  }
  if (!from.is_contiguous() || !to.is_contiguous()) return std::nullopt;
  const Strides& strides = integers_of(request, "strides");
  if (strides.size() != to.shape.size()) return std::nullopt;
  const int64_t offset = integer_of(request, "offset", 0);
  return Source{to.shape, strides, element_count(to.shape) == 0 ? 0 : offset};
}

std::unique_ptr<PreparedKernel> prepare_copy(const KernelRequest& request) {
  return copy_of(request, source_of_copy(request));
}

Footprint footprint_of_copy(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  return footprint_of(request, source_of_copy(request));
}

std::optional<Source> source_of_flip(const KernelRequest& request) {
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype || from.shape != to.shape || from.layout.is_blocked() || !to.is_contiguous())
    return std::nullopt;
  Source source{from.shape, memory_strides(from)};
  for (int64_t d : dimensions_of(request, "dims", from.shape.size())) {
    source.offset += std::max<int64_t>(0, from.shape[d] - 1) * source.strides[d];
    source.strides[d] = -source.strides[d];
  }
  return source;
}

std::unique_ptr<PreparedKernel> prepare_flip(const KernelRequest& request) {
  return copy_of(request, source_of_flip(request));
}

Footprint footprint_of_flip(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  return footprint_of(request, source_of_flip(request));
}

bool can_concat(const KernelRequest& request) {
  const TensorSpec& to = request.results[0];
  if (to.layout.is_blocked() || (to.layout.is_plain() && !to.is_contiguous())) return false;
  for (const TensorSpec& from : request.operands)
    if (from.dtype != to.dtype || from.layout.is_blocked()) return false;
  return true;
}

std::unique_ptr<PreparedKernel> prepare_concat(const KernelRequest& request) {
  if (!can_concat(request)) return nullptr;
  const TensorSpec& to = request.results[0];
  const int64_t dim = request.attributes.integer("dim"), bytes = size_in_bytes(to.dtype);
  // Dimensions in the order of the result's memory, so that channels-last pieces are long runs too.
  const std::vector<int> order = to.layout.order(to.shape.size());
  const Strides to_strides = memory_strides(to);
  auto kernel = std::make_unique<CopyKernel>();
  int64_t at = 0;
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const TensorSpec& from = request.operands[k];
    const Strides from_strides = memory_strides(from);
    Shape extents;
    Strides source, target;
    for (int d : order) {
      extents.push_back(from.shape[d]);
      source.push_back(from_strides[d]);
      target.push_back(to_strides[d]);
    }
    kernel->add({.copy = StridedCopy(extents, source, target, bytes),
                 .operand = k,
                 .to_bytes = at * to_strides[dim] * bytes});
    at += from.shape[dim];
  }
  return kernel;
}

Footprint footprint_of_concat(const KernelRequest& request) {
  require_counts(request, 1, SIZE_MAX, 1);
  require_sound(request);
  require(can_concat(request), "joins types or layouts that do not fit");
  const Shape& to = request.results[0].shape;
  const auto dim = static_cast<size_t>(dimension_of(request, "dim", to.size()));
  Checked joined = 0;
  for (const TensorSpec& from : request.operands) {
    Shape same = from.shape;
    require(same.size() == to.size(), "joins tensors of different rank");
    joined += same[dim];
    same[dim] = to[dim];
    require(same == to, "joins tensors whose shapes do not fit");
  }
  require(joined == to[dim], "joins tensors that do not fill its result");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("copy", prepare_copy, footprint_of_copy);
IPU_REGISTER_KERNEL("flip", prepare_flip, footprint_of_flip);
IPU_REGISTER_KERNEL("concat", prepare_concat, footprint_of_concat);

}  // namespace
}  // namespace ipu::kernels
