// Kernels "copy", "flip" and "concat": every element of the result comes from one element of an operand.
// copy: the result's shape read from operand 0 through attributes `offset` and `strides` (elements of the
// contiguous operand; default: the operand's own shape broadcast to the result's). Transposes, slices and
// expands are copies.
#include <algorithm>

#include "kernels/data_movement/strided_copy.h"
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
    for (const Piece& piece : pieces_) {
      const int64_t begin = std::max(first, piece.first_unit),
                    end = std::min(last, piece.first_unit + piece.copy.units());
      if (begin >= end) continue;
      piece.copy.run(call.operands[piece.operand] + piece.from_bytes, call.results[0] + piece.to_bytes,
                     begin - piece.first_unit, end - piece.first_unit);
    }
  }

 private:
  std::vector<Piece> pieces_;
  int64_t units_ = 0, elements_ = 0;
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> whole_copy(const TensorSpec& from, Shape shape, const Strides& strides,
                                           int64_t offset) {
  auto kernel = std::make_unique<CopyKernel>();
  const int64_t bytes = size_in_bytes(from.dtype);
  kernel->add(
      {.copy = StridedCopy(shape, strides, contiguous_strides(shape), bytes), .from_bytes = offset * bytes});
  return kernel;
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

std::unique_ptr<PreparedKernel> prepare_copy(const KernelRequest& request) {
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype) return nullptr;
  const int64_t bytes = size_in_bytes(from.dtype);
  if (!request.attributes.has("strides")) {
    if (from.layout == to.layout && from.layout != Layout::kPlain) {
      if (from.shape != to.shape) return nullptr;
      const int64_t stored = from.stored_bytes() / bytes;
      return whole_copy(from, {stored}, {1}, 0);
    }
    Strides strides;
    if (!to.is_contiguous() || from.layout == Layout::kPacked64 || !broadcast_over(from, to.shape, strides))
      return nullptr;
    return whole_copy(from, to.shape, strides, 0);
  }
  if (!from.is_contiguous() || !to.is_contiguous()) return nullptr;
  const Strides& strides = request.attributes.integers("strides");
  if (strides.size() != to.shape.size()) return nullptr;
  return whole_copy(from, to.shape, strides, request.attributes.integer("offset", 0));
}

std::unique_ptr<PreparedKernel> prepare_flip(const KernelRequest& request) {
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype || from.shape != to.shape || from.layout == Layout::kPacked64 ||
      !to.is_contiguous())
    return nullptr;
  Strides strides = memory_strides(from);
  int64_t offset = 0;
  for (int64_t d : request.attributes.integers("dims")) {
    offset += std::max<int64_t>(0, from.shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return whole_copy(from, to.shape, strides, offset);
}

std::unique_ptr<PreparedKernel> prepare_concat(const KernelRequest& request) {
  const TensorSpec& to = request.results[0];
  if (to.layout == Layout::kPacked64 || (to.layout == Layout::kPlain && !to.is_contiguous())) return nullptr;
  const int64_t dim = request.attributes.integer("dim"), bytes = size_in_bytes(to.dtype);
  // Dimensions in the order of the result's memory, so that channels-last pieces are long runs too.
  const std::vector<int> order = memory_order(to.layout, to.shape.size());
  const Strides to_strides = memory_strides(to);
  auto kernel = std::make_unique<CopyKernel>();
  int64_t at = 0;
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const TensorSpec& from = request.operands[k];
    if (from.dtype != to.dtype || from.layout == Layout::kPacked64) return nullptr;
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

IPU_REGISTER_KERNEL("copy", prepare_copy);
IPU_REGISTER_KERNEL("flip", prepare_flip);
IPU_REGISTER_KERNEL("concat", prepare_concat);

}  // namespace
}  // namespace ipu::kernels
