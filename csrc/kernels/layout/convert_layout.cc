// Kernel "convert_layout": the same tensor in another layout. f32 and f16 matrices between plain and packed64
// (with {transpose=true} also [N,K] plain ↔ [K,N] packed64; with {conv_weight=true} [O,C,*kernel] plain ↔
// [taps*C, O] packed64, rows in tap-major order), and 3-d or 4-d tensors of 4 or 2 bytes between plain and
// nhwc. Not here: strided copies within the plain layout (kernel "copy").
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/kernel_table.h"
#include "kernels/matmul/operand_matrix.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/panels.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

int lanes_for(int64_t elements, int64_t parts) {
  constexpr int64_t kElementsPerLane = 1 << 19;  // some 100 µs of copying
  return static_cast<int>(
      std::clamp<int64_t>(elements / kElementsPerLane, 1, std::clamp<int64_t>(parts, 1, 16)));
}

template <class T>
class PackMatrix : public PreparedKernel {
 public:
  explicit PackMatrix(const MatrixSource& source)
      : source_(source),
        panels_(panel_count(source.columns)),
        lanes_(lanes_for(source.rows * source.columns, panels_)) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    pack_panels(source_, reinterpret_cast<const T*>(call.operands[0]), reinterpret_cast<T*>(call.results[0]),
                panels_ * lane / lanes_, panels_ * (lane + 1) / lanes_);
  }

 private:
  MatrixSource source_;
  int64_t panels_;
  int lanes_;
};

// Packed [rows, columns] → plain, its transpose if asked: both are block copies out of the packed form.
template <class T>
class UnpackMatrix : public PreparedKernel {
 public:
  UnpackMatrix(const MatrixSource& source, int64_t stride)
      : source_(source), stride_(stride), lanes_(lanes_for(source.rows * source.columns, source.rows)) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    constexpr int64_t kBlock = 64;
    const auto* from = reinterpret_cast<const T*>(call.operands[0]);
    auto* to = reinterpret_cast<T*>(call.results[0]);
    const int64_t first = source_.rows * lane / lanes_, last = source_.rows * (lane + 1) / lanes_;
    for (int64_t row = first; row < last; row += kBlock)
      for (int64_t column = 0; column < source_.columns; column += kBlock) {
        const int64_t rows = std::min(kBlock, last - row),
                      columns = std::min(kBlock, source_.columns - column);
        if (source_.form == MatrixSource::Form::kPanels) {
          const int64_t width = panel_width(source_.columns);
          for (int64_t c = column; c < column + columns; c += width)
            for (int64_t r = row; r < row + rows; ++r)
              std::memcpy(to + r * stride_ + c, from + c * source_.rows + r * width,
                          static_cast<size_t>(std::min(width, column + columns - c)) * sizeof(T));
        } else {
          const int64_t width = panel_width(source_.rows);
          for (int64_t r = row; r < row + rows;) {
            const int64_t inside = r % width, count = std::min(width - inside, row + rows - r);
            copy_transposed(from + (r - inside) * source_.columns + column * width + inside, width,
                            to + r * stride_ + column, stride_, columns, count);
            r += count;
          }
        }
      }
  }

 private:
  MatrixSource source_;  // the plain result, read out of the packed operand
  int64_t stride_;
  int lanes_;
};

// A convolution's weight [O][C][taps] ↔ panels over O with rows (tap, channel).
template <class T>
class ConvWeight : public PreparedKernel {
 public:
  ConvWeight(int64_t out, int64_t in, int64_t taps, bool packs)
      : out_(out),
        in_(in),
        taps_(taps),
        packs_(packs),
        lanes_(lanes_for(out * in * taps, panel_count(out))) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t width = panel_width(out_), panels = panel_count(out_), rows = in_ * taps_;
    auto* const from = reinterpret_cast<const T*>(call.operands[0]);
    auto* const to = reinterpret_cast<T*>(call.results[0]);
    T block[64 * 64];
    for (int64_t panel = panels * lane / lanes_; panel < panels * (lane + 1) / lanes_; ++panel) {
      const int64_t column = panel * width, count = std::min(width, out_ - column);
      const auto bytes = static_cast<size_t>(width) * sizeof(T);
      std::memset(block, 0, sizeof block);
      for (int64_t start = 0; start < rows; start += 64) {
        const int64_t length = std::min<int64_t>(64, rows - start);
        if (packs_) copy_transposed(from + column * rows + start, rows, block, width, count, length);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t row = (start + i) % taps_ * in_ + (start + i) / taps_;
          const int64_t at = column * rows + row * width;
          if (packs_)
            std::memcpy(to + at, block + i * width, bytes);
          else
            std::memcpy(block + i * width, from + at, bytes);
        }
        if (!packs_) copy_transposed(block, width, to + column * rows + start, rows, length, count);
      }
    }
  }

 private:
  int64_t out_, in_, taps_;
  bool packs_;
  int lanes_;
};

// Per image a [channels, pixels] matrix becomes its transpose, either way.
template <class T>
class ChannelsLast : public PreparedKernel {
 public:
  ChannelsLast(int64_t images, int64_t rows, int64_t columns)
      : images_(images), rows_(rows), columns_(columns), lanes_(lanes_for(images * rows * columns, images)) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t size = rows_ * columns_;
    for (int64_t i = images_ * lane / lanes_; i < images_ * (lane + 1) / lanes_; ++i)
      copy_transposed(reinterpret_cast<const T*>(call.operands[0]) + i * size, columns_,
                      reinterpret_cast<T*>(call.results[0]) + i * size, rows_, rows_, columns_);
  }

 private:
  int64_t images_, rows_, columns_;
  int lanes_;
};

// Kernels move bits: elements of four bytes are floats to them, of two halves.
template <template <class> class Kernel, class... Arguments>
std::unique_ptr<PreparedKernel> for_width(DType dtype, const Arguments&... arguments) {
  if (size_in_bytes(dtype) == 4) return std::make_unique<Kernel<float>>(arguments...);
  return std::make_unique<Kernel<Half>>(arguments...);
}

std::unique_ptr<PreparedKernel> prepare_convert_layout(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 1) return nullptr;
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype || (size_in_bytes(from.dtype) != 4 && size_in_bytes(from.dtype) != 2))
    return nullptr;
  if (request.attributes.boolean("conv_weight", false)) {
    const bool packs = from.layout == Layout::kPlain && to.layout == Layout::kPacked64;
    const TensorSpec &plain = packs ? from : to, &packed = packs ? to : from;
    if (!plain.is_contiguous() || packed.layout != Layout::kPacked64 || plain.shape.size() < 3)
      return nullptr;
    int64_t taps = 1;
    for (size_t d = 2; d < plain.shape.size(); ++d) taps *= plain.shape[d];
    if (packed.shape != Shape{taps * plain.shape[1], plain.shape[0]}) return nullptr;
    return for_width<ConvWeight>(from.dtype, plain.shape[0], plain.shape[1], taps, packs);
  }
  if (from.layout == Layout::kPlain && to.layout == Layout::kPacked64) {
    const bool transpose = request.attributes.boolean("transpose", false);
    const auto source = matrix_of(from, transpose);
    if (!source || from.shape.size() != 2 || to.shape != Shape{source->rows, source->columns}) return nullptr;
    return for_width<PackMatrix>(from.dtype, *source);
  }
  if (from.layout == Layout::kPacked64 && to.layout == Layout::kPlain) {
    const bool transpose = request.attributes.boolean("transpose", false);
    const auto source = matrix_of(from, transpose);
    if (!source || to.shape != Shape{source->rows, source->columns} || !to.is_contiguous()) return nullptr;
    return for_width<UnpackMatrix>(from.dtype, *source, source->columns);
  }
  const bool to_nhwc = from.layout == Layout::kPlain && to.layout == Layout::kNhwc;
  const bool from_nhwc = from.layout == Layout::kNhwc && to.layout == Layout::kPlain;
  if ((!to_nhwc && !from_nhwc) || from.shape != to.shape || from.shape.size() < 3) return nullptr;
  if (to_nhwc && !from.is_contiguous()) return nullptr;
  if (from_nhwc && !to.is_contiguous()) return nullptr;
  const int64_t channels = from.shape[1];
  int64_t pixels = 1;
  for (size_t d = 2; d < from.shape.size(); ++d) pixels *= from.shape[d];
  return for_width<ChannelsLast>(from.dtype, from.shape[0], to_nhwc ? channels : pixels,
                                 to_nhwc ? pixels : channels);
}

IPU_REGISTER_KERNEL("convert_layout", prepare_convert_layout);

}  // namespace
}  // namespace ipu::kernels
